package workload

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Matcher tells whether labels match a selector: none matches nothing, an empty one
// everything. Labels alone are compared as they stand, whether or not the API would take
// them; what cannot be read of expressions is an error.
func Matcher(s *metav1.LabelSelector) (func(map[string]string) bool, error) {
	if s != nil && len(s.MatchExpressions) == 0 && len(s.MatchLabels) > 0 {
		// As most are, and as fast as ten thousand pods want it: to go through a map costs
		// more than to look something up in one.
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
