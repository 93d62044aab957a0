package reconcile

import (
	"maps"
	"math"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SelectorKey returns the key of an owner in an index by selector: its namespace and one label that the
// selector requires, as namespace/key=value, or namespace/ if it requires none. It chooses the label that
// most likely distinguishes the owner from others: one whose value is the name of the owner, else the one
// with the longest value. With such an index only a few selectors are compared with an object, and not all of
// its namespace.
func SelectorKey(owner metav1.Object, selector *metav1.LabelSelector) string {
	label, best := "", -1
	if selector != nil {
		for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
			value := selector.MatchLabels[key]
			rank := len(value)
			if value == owner.GetName() {
				rank = math.MaxInt
			}
			if rank > best {
				label, best = key+"="+value, rank
			}
		}
	}
	return owner.GetNamespace() + "/" + label
}

// SelectorKeys returns the keys of all owners whose selector may match an object: see SelectorKey.
func SelectorKeys(o metav1.Object) []string {
	keys := []string{o.GetNamespace() + "/"}
	for key, value := range o.GetLabels() {
		keys = append(keys, o.GetNamespace()+"/"+key+"="+value)
	}
	return keys
}
