package inject

import (
	"encoding/json"

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

// Annotation is the annotation that another user writes to change an object's resourceVersion.
const Annotation = "rehearse-k8s.github.io/touched"

// manager is the field manager of the interference finalizer.
const manager = "rehearse-interference"

// NewInterference returns the request by which another user changes an object because of a fault; ok is false if
// no user would send it: the object does not exist, it was replaced (uid, if known, is that of the object
// that the client wrote), or it is a finished pod, which no controller creates again after a delete.
func NewInterference(kind fault.Kind, resource string, current *unstructured.Unstructured, uid string) (q Interference, ok bool) {
	if current == nil || current.GetUID() == "" || uid != "" && uid != string(current.GetUID()) {
		return Interference{}, false
	}
	metadata := map[string]any{"uid": current.GetUID()}
	preconditions := map[string]any{"uid": current.GetUID()}
	switch kind {
	case fault.KindDelete:
		if isFinishedPod(resource, current) {
			return Interference{}, false
		}
		return Interference{Method: "DELETE", ContentType: "application/json", Body: encode(map[string]any{
			"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background", "preconditions": preconditions,
		})}, true
	case fault.KindEvict:
		if resource != "pods" || isFinishedPod(resource, current) {
			return Interference{}, false
		}
		return Interference{Method: "POST", Subresource: "eviction", ContentType: "application/json", Body: encode(map[string]any{
			"apiVersion": "policy/v1", "kind": "Eviction",
			"metadata":      map[string]any{"name": current.GetName(), "namespace": current.GetNamespace()},
			"deleteOptions": map[string]any{"preconditions": preconditions},
		})}, true
	case fault.KindLabel:
		metadata["labels"] = map[string]any{Annotation: "yes"}
	case fault.KindConflict:
		// The value differs from the last one, so the write changes the resourceVersion.
		metadata["annotations"] = map[string]any{Annotation: "after " + current.GetResourceVersion()}
	case fault.KindFinalizer:
		return finalizer(current, true), true
	default:
		return Interference{}, false
	}
	return Interference{Method: "PATCH", ContentType: string(types.MergePatchType), Body: encode(map[string]any{"metadata": metadata})}, true
}

// RemoveFinalizer returns the request that removes the interference finalizer and leaves the others.
func RemoveFinalizer(current *unstructured.Unstructured) Interference {
	return finalizer(current, false)
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

func encode(o map[string]any) []byte {
	body, err := json.Marshal(o)
	if err != nil {
		panic(err) // strings and lists of strings can be encoded
	}
	return body
}
