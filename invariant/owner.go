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

// String is "CloneSet default/web".
func (o Owner) String() string { return o.Kind + " " + inspect.Key(o.Namespace, o.Name) }

// OwnerOf names an object as an owner. The kind is the one the object carries;
// objects of the typed clients carry none, and there it is the name of the Go type.
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

// pods are the living world's pods that the owner controls. Pods of an earlier
// owner of the same name are not its own.
func (o Owner) pods(v View) (pods []*unstructured.Unstructured) {
	for _, p := range v.List("pods") {
		if o.Namespace != "" && p.GetNamespace() != o.Namespace {
			continue
		}
		ref := metav1.GetControllerOfNoCopy(p)
		if ref == nil || ref.Kind != o.Kind || ref.Name != o.Name {
			continue
		}
		if living := namedBy(v, p.GetNamespace(), ref); living != nil && living.GetUID() != ref.UID {
			continue
		}
		pods = append(pods, p)
	}
	return pods
}

// active are the owner's pods that neither ended nor are on their way out.
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

// namedBy is the living object of the kind and name in an owner reference, whatever
// its UID. An owner is in the namespace of what it owns, or in none.
func namedBy(v View, namespace string, ref *metav1.OwnerReference) *unstructured.Unstructured {
	resource := guessResource(ref)
	if o := v.Get(resource, namespace, ref.Name); o != nil {
		return o
	}
	return v.Get(resource, "", ref.Name)
}

// guessResource is the usual resource of a kind: references carry kinds, views are
// asked for resources. An unusual plural is not found, so that nothing may be
// concluded from its absence alone.
func guessResource(ref *metav1.OwnerReference) string {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return strings.ToLower(ref.Kind)
	}
	plural, _ := meta.UnsafeGuessKindToResource(gv.WithKind(ref.Kind))
	return plural.GroupResource().String()
}
