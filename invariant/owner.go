package invariant

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rehearse-k8s/rehearse/invariant/internal/inspect"
)

// Owner names an object that controls others.
type Owner struct{ Kind, Namespace, Name string }

// String returns, for example, "CloneSet default/web".
func (o Owner) String() string { return o.Kind + " " + inspect.Key(o.Namespace, o.Name) }

// OwnerOf returns the Owner that names an object. Its kind is that of the object; objects of typed
// clients have no kind set, and for them it is the name of the Go type.
func OwnerOf(obj interface {
	metav1.Object
	runtime.Object
}) Owner {
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		t := reflect.TypeOf(obj)
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		kind = t.Name()
	}
	return Owner{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// pods returns the existing pods that the owner controls, without those of an earlier owner of the
// same name.
func (o Owner) pods(v View) (pods []*unstructured.Unstructured) {
	for _, p := range v.List("pods") {
		if o.Namespace != "" && p.GetNamespace() != o.Namespace {
			continue
		}
		ref := metav1.GetControllerOfNoCopy(p)
		if ref == nil || ref.Kind != o.Kind || ref.Name != o.Name {
			continue
		}
		if existing := namedBy(v, p.GetNamespace(), ref); existing != nil && existing.GetUID() != ref.UID {
			continue
		}
		pods = append(pods, p)
	}
	return pods
}

// active returns the owner's pods that have not finished and are not being deleted.
func (o Owner) active(v View) (pods []*unstructured.Unstructured) {
	for _, p := range o.pods(v) {
		if isActive(p) {
			pods = append(pods, p)
		}
	}
	return pods
}

func isActive(pod *unstructured.Unstructured) bool {
	phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
	return phase != "Succeeded" && phase != "Failed" && pod.GetDeletionTimestamp() == nil
}

// namedBy returns the existing object with the kind and name in an owner reference, whatever its
// UID. An owner is in the namespace of its dependants, or is cluster-scoped.
func namedBy(v View, namespace string, ref *metav1.OwnerReference) *unstructured.Unstructured {
	resource := guessResource(ref)
	if o := v.Get(resource, namespace, ref.Name); o != nil {
		return o
	}
	return v.Get(resource, "", ref.Name)
}

// guessResource returns the usual resource of a kind: references contain kinds, but a View lists
// resources. An irregular plural is not found, so the absence of an object alone proves nothing.
func guessResource(ref *metav1.OwnerReference) string {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return strings.ToLower(ref.Kind)
	}
	plural, _ := meta.UnsafeGuessKindToResource(gv.WithKind(ref.Kind))
	return plural.GroupResource().String()
}
