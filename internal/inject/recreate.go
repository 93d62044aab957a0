package inject

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/history"
)

// Edit is a write of the user to an object that exists: the object before and after it.
type Edit struct{ Before, After map[string]any }

// Recreation returns the request that creates an object again after KindRecreate has deleted it. Its target is the
// collection of the object's resource.
//
// created is the body of the request by which the user created the object, and edits are the user's later writes to it, in
// their order. The new object has that content: what controllers have written to the old one is gone. If the body is
// not known, because the object is older than the run, the new object has the content of the old one, without its status and
// without what the API server has generated from its UID.
func Recreation(created []byte, edits []Edit, old *unstructured.Unstructured) Interference {
	content := unstructured.Unstructured{}
	if len(created) == 0 || content.UnmarshalJSON(created) != nil {
		content, edits = unstructured.Unstructured{Object: withoutValue(old.Object, string(old.GetUID()))}, nil
	}
	object := content.Object
	for _, e := range edits {
		object = history.Merged(object, history.MergePatch(e.Before, e.After))
	}
	object = history.Merged(object, map[string]any{
		"status": nil,
		"metadata": map[string]any{
			"name": old.GetName(), "uid": nil, "resourceVersion": nil, "generation": nil, "creationTimestamp": nil, "managedFields": nil,
			"generateName": nil, "deletionTimestamp": nil, "deletionGracePeriodSeconds": nil, "selfLink": nil,
		},
	})
	if namespace := old.GetNamespace(); namespace != "" {
		object = history.Merged(object, map[string]any{"metadata": map[string]any{"namespace": namespace}})
	}
	return Interference{Method: "POST", ContentType: "application/json", Body: encode(withoutDefaults(object, old))}
}

// Again returns the request that follows Recreation if the user has written to the old object after its creation: one that
// changes nothing. The API server sets more defaults on an update than on a create (labels of a Job, for example), so
// without it the new object could differ from the old one.
func Again() Interference {
	return Interference{Method: "PATCH", ContentType: string(types.MergePatchType), Body: []byte("{}")}
}

// withoutDefaults returns an object without the labels that the API server has copied from the template of the old object, if
// they contain its UID, as those of a Job do: a write of the user has made them part of the object.
func withoutDefaults(object map[string]any, old *unstructured.Unstructured) map[string]any {
	template, _, _ := unstructured.NestedStringMap(old.Object, "spec", "template", "metadata", "labels")
	labels, _, _ := unstructured.NestedStringMap(object, "metadata", "labels")
	if !slices.Contains(slices.Collect(maps.Values(labels)), string(old.GetUID())) {
		return object
	}
	patch := map[string]any{}
	for key, value := range labels {
		if template[key] == value {
			patch[key] = nil
		}
	}
	return history.Merged(object, map[string]any{"metadata": map[string]any{"labels": patch}})
}

// withoutValue returns an object without the fields that have this value, at any depth: the API server rejects a Job whose selector and labels contain
// the UID of another Job (pkg/registry/batch/job, generateSelector). Elements of lists stay.
func withoutValue(object map[string]any, value string) map[string]any {
	without := make(map[string]any, len(object))
	for key, field := range object {
		if child, ok := field.(map[string]any); ok {
			field = withoutValue(child, value)
		}
		if field != value {
			without[key] = field
		}
	}
	return without
}

// Collection is the garbage collector of a run that has none. Like that of a cluster, it deletes the objects whose owners
// are gone. It acts only on dependents of the objects that interference has deleted: without it, they would stay,
// which is not the fault of any controller. The zero value is empty.
type Collection struct {
	deleted   map[string]string // by UID: objects whose deletion was requested, and the fault
	gone      map[string]string // those of them that do not exist any more
	scheduled map[string]bool   // by UID: objects that wait for their collection
}

// Deleted records that a fault has requested the deletion of the object with a UID.
func (c *Collection) Deleted(uid, because string) {
	if c.deleted == nil {
		c.deleted, c.gone = map[string]string{}, map[string]string{}
	}
	c.deleted[uid] = because
}

// Empty reports whether no deletion was recorded.
func (c *Collection) Empty() bool { return len(c.deleted) == 0 }

// Gone records that the object with a UID does not exist any more. It reports whether a fault has deleted it, so that its
// dependents are to be collected.
func (c *Collection) Gone(uid string) bool {
	because, ok := c.deleted[uid]
	if ok {
		c.gone[uid] = because
	}
	return ok
}

// Collects reports whether an object is to be deleted, because all its owners are gone, and the fault that causes that.
func (c *Collection) Collects(object map[string]any) (because string, ok bool) {
	o := unstructured.Unstructured{Object: object}
	if o.GetDeletionTimestamp() != nil {
		return "", false
	}
	for _, owner := range o.GetOwnerReferences() {
		if because, ok = c.gone[string(owner.UID)]; !ok {
			return "", false
		}
	}
	return because, ok
}

// Schedule reports whether the collection of an object is to be scheduled: all its owners are gone because of faults, and it does
// not wait for its collection already.
func (c *Collection) Schedule(uid string, object map[string]any) bool {
	if _, ok := c.Collects(object); !ok || c.scheduled[uid] {
		return false
	}
	if c.scheduled == nil {
		c.scheduled = map[string]bool{}
	}
	c.scheduled[uid] = true
	return true
}

// Due reports whether an object whose collection was scheduled is to be deleted now, and the fault that causes that. object is what
// exists under its name, or nil: a controller may have adopted the object, or created another one.
func (c *Collection) Due(uid string, object *unstructured.Unstructured) (because string, ok bool) {
	delete(c.scheduled, uid)
	if object == nil || string(object.GetUID()) != uid {
		return "", false
	}
	return c.Collects(object.Object)
}

// Collect returns the requests, in their order, by which the garbage collector deletes an object. If a controller of
// upstream protects the object, the last request removes the protection, as that controller does once no pod uses it.
func Collect(current *unstructured.Unstructured) []Interference {
	requests := []Interference{remove(current)}
	if isProtected(current) {
		others := slices.DeleteFunc(current.GetFinalizers(), isProtection)
		requests = append(requests, Interference{Method: "PATCH", ContentType: string(types.MergePatchType), Body: encode(map[string]any{
			"metadata": map[string]any{"uid": current.GetUID(), "finalizers": others},
		})})
	}
	return requests
}
