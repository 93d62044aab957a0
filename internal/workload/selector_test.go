package workload

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"
)

// TestMatcher compares Matcher with the conversion of apimachinery for random selectors and labels.
func TestMatcher(t *testing.T) {
	word := rapid.SampledFrom([]string{"a", "b", "c"})
	few := rapid.MapOfN(word, word, 0, 3)
	expression := rapid.Custom(func(t *rapid.T) metav1.LabelSelectorRequirement {
		r := metav1.LabelSelectorRequirement{Key: word.Draw(t, "key")}
		r.Operator = rapid.SampledFrom([]metav1.LabelSelectorOperator{
			metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist, "Nonsense",
		}).Draw(t, "operator")
		if r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpNotIn {
			r.Values = rapid.SliceOfN(word, 0, 2).Draw(t, "values")
		}
		return r
	})
	rapid.Check(t, func(t *rapid.T) {
		var s *metav1.LabelSelector
		if rapid.IntRange(0, 9).Draw(t, "none") > 0 {
			s = &metav1.LabelSelector{MatchLabels: few.Draw(t, "labels"), MatchExpressions: rapid.SliceOfN(expression, 0, 2).Draw(t, "expressions")}
		}
		match, err := Matcher(s)
		want, wantErr := metav1.LabelSelectorAsSelector(s)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%v: error %v, want %v", s, err, wantErr)
		}
		if all := few.Draw(t, "of a pod"); err == nil && match(all) != want.Matches(labels.Set(all)) {
			t.Fatalf("%v matches %v: %t", s, all, match(all))
		}
	})
}
