package reconcile

import "k8s.io/apimachinery/pkg/api/meta"

// DropManagedFields removes managed fields from an object before an informer stores it: controllers do
// not read them, and they are a third of a pod. It is a cache.TransformFunc.
func DropManagedFields(obj any) (any, error) {
	if m, err := meta.Accessor(obj); err == nil && m.GetManagedFields() != nil {
		m.SetManagedFields(nil)
	}
	return obj, nil
}
