package store

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// fieldSets shares the field sets of managedFields between decoded objects: all pods of one template that the same clients
// have written have equal ones, and they are a tenth of a pod. Readers do not modify them (see [objects.read]).
type fieldSets struct {
	mu    sync.Mutex
	known map[string]*metav1.FieldsV1
}

// maxFieldSets limits the number of known field sets, and maxFieldSet the size of one in bytes. A cluster has a few sets per
// kind and client; when there are too many, the known ones are forgotten.
const (
	maxFieldSets = 4096
	maxFieldSet  = 16 << 10
)

// share replaces the field sets of an object that no other goroutine uses yet by equal ones of earlier objects.
func (f *fieldSets) share(obj runtime.Object) {
	o, ok := obj.(metav1.ObjectMetaAccessor)
	if !ok {
		return
	}
	meta, ok := o.GetObjectMeta().(*metav1.ObjectMeta)
	if !ok || len(meta.ManagedFields) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for n := range meta.ManagedFields {
		fields := meta.ManagedFields[n].FieldsV1
		raw := fields.GetRawBytes()
		if len(raw) == 0 || len(raw) > maxFieldSet {
			continue
		}
		known := f.known[string(raw)]
		if known == nil {
			if f.known == nil || len(f.known) >= maxFieldSets {
				f.known = map[string]*metav1.FieldsV1{}
			}
			f.known[string(raw)] = fields
			continue
		}
		meta.ManagedFields[n].FieldsV1 = known
	}
}
