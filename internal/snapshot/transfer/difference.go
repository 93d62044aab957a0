package transfer

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/rehearse-k8s/rehearse/internal/snapshot"
)

// IsBuiltIn reports whether the patches of a kind in a recording are strategic merge patches.
func IsBuiltIn(k schema.GroupVersionKind) bool { return scheme.Scheme.Recognizes(k) }

// difference returns the patch from one version of an object to another, in JSON. It is empty if they are equal.
func difference(k schema.GroupVersionKind, from, to []byte) (map[string]any, error) {
	if IsBuiltIn(k) {
		obj, err := scheme.Scheme.New(k)
		if err != nil {
			return nil, err
		}
		patch, err := strategicpatch.CreateTwoWayMergePatch(from, to, obj)
		if err != nil {
			return nil, err
		}
		return snapshot.Decode(patch)
	}
	a, err := snapshot.Decode(from)
	if err != nil {
		return nil, err
	}
	b, err := snapshot.Decode(to)
	if err != nil {
		return nil, err
	}
	return snapshot.MergePatch(a, b), nil
}
