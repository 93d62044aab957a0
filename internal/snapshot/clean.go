package snapshot

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Trim removes the fields of an object that no file contains: managedFields, which name the writers in the saved cluster,
// and the revision.
func Trim(obj *unstructured.Unstructured) {
	for _, field := range []string{"managedFields", "resourceVersion", "selfLink"} {
		unstructured.RemoveNestedField(obj.Object, "metadata", field)
	}
}

// SecretText replaces the values of Secrets whose data is omitted.
const SecretText = "omitted"

const (
	omittedValue = "b21pdHRlZA==" // SecretText in base64
	emptyObject  = "e30="         // {} in base64
)

// OmitSecretData replaces the values of a Secret by placeholders that the API server accepts for its type. The keys stay,
// because pods refer to them. It does not change other kinds.
func OmitSecretData(obj *unstructured.Unstructured) {
	if obj.GroupVersionKind().GroupKind() != (schema.GroupKind{Kind: "Secret"}) {
		return
	}
	unstructured.RemoveNestedField(obj.Object, "stringData")
	// kubectl apply stores the data a second time.
	unstructured.RemoveNestedField(obj.Object, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
	data, _ := obj.Object["data"].(map[string]any)
	for key := range data {
		data[key] = omittedValue
		if key == ".dockercfg" || key == ".dockerconfigjson" {
			data[key] = emptyObject
		}
	}
}

// Original holds the fields of a saved object that a create cannot set, and that a restore needs later.
type Original struct {
	UID         types.UID
	Generation  int64
	Status      any // nil: the object has none
	Terminating bool
	GracePeriod *int64 // of a terminating object, in seconds
	Propagation metav1.DeletionPropagation
}

// Detach removes from an object the fields that the API server sets, so that the object can be created, and returns those that a
// restore needs later.
func Detach(obj *unstructured.Unstructured) Original {
	o := Original{UID: obj.GetUID(), Generation: obj.GetGeneration(), Status: obj.Object["status"], Propagation: metav1.DeletePropagationBackground}
	if o.Terminating = obj.GetDeletionTimestamp() != nil; o.Terminating {
		o.GracePeriod = obj.GetDeletionGracePeriodSeconds()
		// The API server derives these finalizers from the propagation policy of a delete.
		finalizers := slices.DeleteFunc(obj.GetFinalizers(), func(f string) bool {
			switch f {
			case metav1.FinalizerDeleteDependents:
				o.Propagation = metav1.DeletePropagationForeground
			case metav1.FinalizerOrphanDependents:
				o.Propagation = metav1.DeletePropagationOrphan
			default:
				return false
			}
			return true
		})
		obj.SetFinalizers(finalizers)
	}
	Trim(obj)
	for _, field := range []string{"uid", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		unstructured.RemoveNestedField(obj.Object, "metadata", field)
	}
	delete(obj.Object, "status")
	switch obj.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: batch, Kind: "Job"}:
		detachSelector(obj)
	case schema.GroupKind{Kind: "Pod"}:
		unstructured.RemoveNestedField(obj.Object, "spec", "ephemeralContainers") // a create must not contain them
	case CRD, schema.GroupKind{Kind: "Namespace"}:
		o.Status = nil // the API server sets it
	}
	return o
}

// detachSelector removes the selector that the API server generates from a Job's UID, and its labels in the template.
func detachSelector(obj *unstructured.Unstructured) {
	if manual, _, _ := unstructured.NestedBool(obj.Object, "spec", "manualSelector"); manual {
		return
	}
	unstructured.RemoveNestedField(obj.Object, "spec", "selector")
	for _, label := range []string{"controller-uid", "batch.kubernetes.io/controller-uid"} {
		unstructured.RemoveNestedField(obj.Object, "spec", "template", "metadata", "labels", label)
	}
}

// StatusFor returns a copy of a status for an object with another generation. Each observedGeneration becomes that generation
// if the status was up to date, and the one before otherwise.
func (o Original) StatusFor(generation int64) any {
	status := o.Status
	if m, ok := status.(map[string]any); ok {
		status = runtime.DeepCopyJSON(m)
	}
	setObserved(status, o.Generation, generation)
	return status
}

func setObserved(v any, from, to int64) {
	switch v := v.(type) {
	case map[string]any:
		for k, child := range v {
			if n, ok := child.(int64); ok && k == "observedGeneration" {
				v[k] = to
				if n < from {
					v[k] = max(to-1, 0)
				}
				continue
			}
			setObserved(child, from, to)
		}
	case []any:
		for _, child := range v {
			setObserved(child, from, to)
		}
	}
}

// HasObservedGeneration reports whether a status names a generation of its object.
func HasObservedGeneration(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for k, child := range v {
			if _, ok := child.(int64); ok && k == "observedGeneration" || HasObservedGeneration(child) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, HasObservedGeneration)
	}
	return false
}

// TrimPatch removes from a patch the fields that the API server sets, and the order of owner references, which a change of their UIDs makes
// invalid. It removes metadata if nothing remains.
func TrimPatch(patch map[string]any) {
	for _, field := range []string{"apiVersion", "kind"} {
		delete(patch, field)
	}
	metadata, ok := patch["metadata"].(map[string]any)
	if !ok {
		return
	}
	for _, field := range []string{
		"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink",
		"name", "namespace", "$setElementOrder/ownerReferences",
	} {
		delete(metadata, field)
	}
	if len(metadata) == 0 {
		delete(patch, "metadata")
	}
}

// DropAllocations removes from a Service the addresses and ports that the API server allocates, and reports whether there were
// any. Another cluster may have another range, or have allocated them already.
func DropAllocations(obj *unstructured.Unstructured) bool {
	if obj.GroupVersionKind().GroupKind() != (schema.GroupKind{Kind: "Service"}) {
		return false
	}
	spec, _ := obj.Object["spec"].(map[string]any)
	dropped := false
	if ip, _ := spec["clusterIP"].(string); ip != "" && ip != "None" {
		delete(spec, "clusterIP")
		delete(spec, "clusterIPs")
		dropped = true
	}
	if _, ok := spec["healthCheckNodePort"]; ok {
		delete(spec, "healthCheckNodePort")
		dropped = true
	}
	ports, _ := spec["ports"].([]any)
	for _, p := range ports {
		if port, ok := p.(map[string]any); ok && port["nodePort"] != nil {
			delete(port, "nodePort")
			dropped = true
		}
	}
	return dropped
}
