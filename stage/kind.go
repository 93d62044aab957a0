package stage

import (
	"strings"

	"github.com/rehearse-k8s/rehearse/stage/expr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Kind is a kind of objects that stages can apply to, including custom resources.
type Kind struct {
	// APIVersion is group and version: "v1", "apps/v1", "example.com/v1alpha1".
	APIVersion string
	// Kind is the name of the kind, for instance "Deployment".
	Kind string
}

// The kinds that have Go types here.
var (
	KindNode = Kind{APIVersion: "v1", Kind: "Node"}
	KindPod  = Kind{APIVersion: "v1", Kind: "Pod"}
)

// String is "Pod" for kinds of v1 and "Deployment.apps/v1" for others.
func (k Kind) String() string {
	if k.APIVersion == "v1" || k.APIVersion == "" {
		return k.Kind
	}
	return k.Kind + "." + k.APIVersion
}

// GroupVersionKind converts k to the type of apimachinery.
func (k Kind) GroupVersionKind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(k.APIVersion, k.Kind)
}

// typed reports whether objects of this kind are Go structs.
func (k Kind) typed() bool { return k == KindPod || k == KindNode }

// form returns the Go type of objects of this kind.
func (k Kind) form() expr.Form {
	switch k {
	case KindPod:
		return expr.Pod
	case KindNode:
		return expr.Node
	}
	return expr.Unstructured
}

// group is the API group; empty for the core group.
func (k Kind) group() string {
	group, _, found := strings.Cut(k.APIVersion, "/")
	if !found {
		return ""
	}
	return group
}

// Object is a *corev1.Pod, a *corev1.Node or, for every other kind, an *unstructured.Unstructured. Any other type
// matches no stage, and neither does an unstructured pod or node. Decide and Play never change it.
type Object = metav1.Object

// KindOf returns the kind of an object; the zero Kind if no stage can apply to it.
func KindOf(o Object) Kind {
	switch o := o.(type) {
	case *corev1.Pod:
		return KindPod
	case *corev1.Node:
		return KindNode
	case *unstructured.Unstructured:
		apiVersion, _ := o.Object["apiVersion"].(string)
		kind, _ := o.Object["kind"].(string)
		if k := (Kind{APIVersion: apiVersion, Kind: kind}); kind != "" && !k.typed() {
			return k
		}
	}
	return Kind{}
}

// identity returns UID and resourceVersion, without the allocations of the accessors of unstructured objects.
func identity(o Object) (uid types.UID, version string) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o.GetUID(), o.GetResourceVersion()
	}
	metadata, _ := u.Object["metadata"].(map[string]any)
	id, _ := metadata["uid"].(string)
	version, _ = metadata["resourceVersion"].(string)
	return types.UID(id), version
}
