package stages

import "k8s.io/apimachinery/pkg/api/meta"

// Trim drops managed fields from what informers keep: controllers do not read them, and
// they are a third of a pod. It is a cache.TransformFunc.
func Trim(obj any) (any, error) {
	if m, err := meta.Accessor(obj); err == nil && m.GetManagedFields() != nil {
		m.SetManagedFields(nil)
	}
	return obj, nil
}
