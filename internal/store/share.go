package store

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// share lets a decoded object that no other goroutine uses yet share memory with earlier ones.
func (ws *Worlds) share(obj runtime.Object) {
	if group, ok := ws.group(obj); ok {
		ws.samples.Share(group, obj)
	}
}

// remember makes the object of a committed version one with which later objects share memory. Before the commit, its resourceVersion changes.
func (ws *Worlds) remember(v *version) {
	d := v.decoded.Load()
	if d == nil {
		return
	}
	if group, ok := ws.group(d.obj); ok {
		ws.samples.Remember(group, d.obj)
	}
}

// group returns the name of the group of objects to which an object is expected to be similar: those of its owner or else of its namespace that as
// many clients have written. A pod that has no status yet has fewer managed fields than one that runs. It returns false if the object
// shares no memory: unstructured objects are maps, which readers may change at the top, and deleted ones are soon gone.
func (ws *Worlds) group(obj runtime.Object) (name string, ok bool) {
	if !ws.options.ShareParts || isMap(obj) {
		return "", false
	}
	accessor, ok := obj.(metav1.ObjectMetaAccessor)
	if !ok {
		return "", false
	}
	meta := accessor.GetObjectMeta()
	if meta.GetDeletionTimestamp() != nil {
		return "", false
	}
	name = meta.GetNamespace()
	if owner := metav1.GetControllerOf(meta); owner != nil {
		name = string(owner.UID)
	}
	return name + "/" + strconv.Itoa(len(meta.GetManagedFields())), true
}
