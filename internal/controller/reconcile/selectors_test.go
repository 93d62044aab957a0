package reconcile

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSelectorKey checks which label an owner is indexed by, and that an object with the required labels has
// its key.
func TestSelectorKey(t *testing.T) {
	owner := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	for name, c := range map[string]struct {
		selector *metav1.LabelSelector
		want     string
	}{
		"no selector":       {nil, "ns/"},
		"expressions only":  {&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpExists}}}, "ns/"},
		"the longest value": {&metav1.LabelSelector{MatchLabels: map[string]string{"a": "x", "b": "long", "c": "long"}}, "ns/b=long"},
		"the owner's name":  {&metav1.LabelSelector{MatchLabels: map[string]string{"a": "longer", "b": "web"}}, "ns/b=web"},
		"an empty value":    {&metav1.LabelSelector{MatchLabels: map[string]string{"a": ""}}, "ns/a="},
	} {
		t.Run(name, func(t *testing.T) {
			got := SelectorKey(owner, c.selector)
			if got != c.want {
				t.Errorf("key %q, want %q", got, c.want)
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{"other": "label"}}}
			if c.selector != nil {
				for k, v := range c.selector.MatchLabels {
					pod.Labels[k] = v
				}
			}
			if keys := SelectorKeys(pod); !slices.Contains(keys, got) {
				t.Errorf("%q is not among the keys %q of a pod with these labels", got, keys)
			}
		})
	}
}
