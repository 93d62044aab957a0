package inject

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/fault"
)

// Interference is a request of another user about an object. It names the UID of the object, so the API
// rejects it if another object has taken the name meanwhile.
type Interference struct {
	// Method is the HTTP method.
	Method string
	// Subresource of the object; "" for the object itself.
	Subresource string
	// FieldManager is a parameter of the request; "" for none.
	FieldManager string
	ContentType  string
	Body         []byte
}

// editAnnotation is the annotation that KindEdit adds and removes.
const editAnnotation = "rehearse-k8s.github.io/edited"

// manager is the field manager of the interference finalizer.
const manager = "rehearse-interference"

// NewInterference returns the request by which another user changes an object because of a fault; ok is false if
// no user would send it: the object does not exist, it was replaced (uid, if known, is that of the object
// that the client wrote), it is a finished pod, which no controller creates again after a delete, or it is a claim or volume
// that a controller of upstream protects from deletion: that one does not run here, so the object would never be removed.
func NewInterference(kind fault.Kind, resource string, current *unstructured.Unstructured, uid string) (q Interference, ok bool) {
	if current == nil || current.GetUID() == "" || uid != "" && uid != string(current.GetUID()) {
		return Interference{}, false
	}
	metadata := map[string]any{"uid": current.GetUID()}
	switch kind {
	case fault.KindDelete, fault.KindRecreate:
		if kind == fault.KindRecreate && current.GetDeletionTimestamp() != nil { // the user or a controller deletes it
			return Interference{}, false
		}
		if isFinishedPod(resource, current) || isProtected(current) {
			return Interference{}, false
		}
		return remove(current), true
	case fault.KindEvict:
		if resource != "pods" || isFinishedPod(resource, current) {
			return Interference{}, false
		}
		return Interference{Method: "POST", Subresource: "eviction", ContentType: "application/json", Body: encode(map[string]any{
			"apiVersion": "policy/v1", "kind": "Eviction",
			"metadata":      map[string]any{"name": current.GetName(), "namespace": current.GetNamespace()},
			"deleteOptions": map[string]any{"preconditions": map[string]any{"uid": current.GetUID()}},
		})}, true
	case fault.KindLabel:
		metadata["labels"] = map[string]any{fault.InterferenceKey: "yes"}
	case fault.KindConflict:
		// The value differs from the last one, so the write changes the resourceVersion.
		metadata["annotations"] = map[string]any{fault.InterferenceKey: "after " + current.GetResourceVersion()}
	case fault.KindEdit:
		return edit(current, true), true
	case fault.KindFinalizer:
		// The API server attributes a finalizer that admission has added to no manager, and the apply that removes the
		// interference finalizer would remove it too.
		if isProtected(current) {
			return Interference{}, false
		}
		return finalizer(current, true), true
	default:
		return Interference{}, false
	}
	return Interference{Method: "PATCH", ContentType: string(types.MergePatchType), Body: encode(map[string]any{"metadata": metadata})}, true
}

// remove deletes an object.
func remove(current *unstructured.Unstructured) Interference {
	return Interference{Method: "DELETE", ContentType: "application/json", Body: encode(map[string]any{
		"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
		"preconditions": map[string]any{"uid": current.GetUID()},
	})}
}

// RemoveFinalizer returns the request that removes the interference finalizer and leaves the others.
func RemoveFinalizer(current *unstructured.Unstructured) Interference {
	return finalizer(current, false)
}

// RevertEdit returns the second request of KindEdit, which changes the object back to what it was: current is the
// object before the first one.
func RevertEdit(current *unstructured.Unstructured) Interference { return edit(current, false) }

// edit decreases spec.replicas if there are any, or else sets an annotation, or changes it back. An increase would violate
// invariants that limit the number of pods, although a controller did what the user wanted; that another user makes pods
// disappear for a while is also possible with KindDelete and KindEvict.
func edit(current *unstructured.Unstructured, change bool) Interference {
	body := map[string]any{"metadata": map[string]any{"uid": current.GetUID()}}
	if replicas, ok, err := unstructured.NestedInt64(current.Object, "spec", "replicas"); ok && err == nil && replicas > 0 {
		if change {
			replicas--
		}
		body["spec"] = map[string]any{"replicas": replicas}
	} else {
		value := any(nil)
		if change {
			value = "yes"
		}
		body["metadata"].(map[string]any)["annotations"] = map[string]any{editAnnotation: value}
	}
	return Interference{Method: "PATCH", ContentType: string(types.MergePatchType), Body: encode(body)}
}

// finalizer adds or removes the interference finalizer by server-side apply: finalizers are a set in every
// kind (listType of ObjectMeta), so the request neither reads nor writes those of others. With the UID, an
// apply does not create an object that is gone.
func finalizer(current *unstructured.Unstructured, present bool) Interference {
	finalizers := []any{}
	if present {
		finalizers = append(finalizers, fault.InterferenceFinalizer)
	}
	return Interference{
		Method: "PATCH", FieldManager: manager, ContentType: string(types.ApplyPatchType), Body: encode(map[string]any{
			"apiVersion": current.GetAPIVersion(), "kind": current.GetKind(),
			"metadata": map[string]any{
				"name": current.GetName(), "namespace": current.GetNamespace(), "uid": current.GetUID(), "finalizers": finalizers,
			},
		}),
	}
}

// isFinishedPod reports whether an object is a pod in a final phase.
func isFinishedPod(resource string, o *unstructured.Unstructured) bool {
	if resource != "pods" {
		return false
	}
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	return phase == "Succeeded" || phase == "Failed"
}

// isProtected reports whether admission has given the object a finalizer that only a controller of upstream removes
// (k8s.io/kubernetes/plugin/pkg/admission/storage/storageobjectinuseprotection).
func isProtected(o *unstructured.Unstructured) bool {
	return slices.ContainsFunc(o.GetFinalizers(), isProtection)
}

// Unprotect returns the request that removes the finalizers that protect a claim or volume from deletion; ok is false if
// it has none. Upstream's controllers send it when nothing uses the deleted object
// (k8s.io/kubernetes/pkg/controller/volume/pvcprotection).
func Unprotect(current *unstructured.Unstructured) (q Interference, ok bool) {
	if !isProtected(current) {
		return Interference{}, false
	}
	var others any // null removes the list
	if left := slices.DeleteFunc(slices.Clone(current.GetFinalizers()), isProtection); len(left) > 0 {
		others = left
	}
	return Interference{Method: "PATCH", ContentType: string(types.MergePatchType), Body: encode(map[string]any{
		"metadata": map[string]any{"uid": current.GetUID(), "finalizers": others},
	})}, true
}

func isProtection(finalizer string) bool {
	return finalizer == "kubernetes.io/pvc-protection" || finalizer == "kubernetes.io/pv-protection"
}

func encode(o map[string]any) []byte {
	body, err := json.Marshal(o)
	if err != nil {
		panic(err) // strings and lists of strings can be encoded
	}
	return body
}
