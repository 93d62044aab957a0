package workload

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Matcher returns a function that reports whether labels match a selector: nil matches nothing, an
// empty selector everything. matchLabels are compared without validation; invalid matchExpressions
// are an error.
func Matcher(s *metav1.LabelSelector) (func(map[string]string) bool, error) {
	if s != nil && len(s.MatchExpressions) == 0 && len(s.MatchLabels) > 0 {
		// Most selectors have only matchLabels, and are matched with tens of thousands of pods:
		// iterating over a slice costs less than iterating over a map.
		type label struct{ key, value string }
		wanted := make([]label, 0, len(s.MatchLabels))
		for key, value := range s.MatchLabels {
			wanted = append(wanted, label{key, value})
		}
		return func(all map[string]string) bool {
			for i := range wanted {
				if got, ok := all[wanted[i].key]; !ok || got != wanted[i].value {
					return false
				}
			}
			return true
		}, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, err
	}
	return func(all map[string]string) bool { return selector.Matches(labels.Set(all)) }, nil
}
