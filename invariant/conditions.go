package invariant

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rehearse-k8s/rehearse/history"
)

// contradictions are pairs of conditions of which at most one is True: those of a finished Job, and those of kstatus,
// which many operators follow.
var contradictions = [][2]string{{"Complete", "Failed"}, {"Ready", "Stalled"}}

// ConsistentConditions returns an invariant that is violated when the status of an object contradicts itself: it has two
// conditions of one type with different statuses, or both of Complete and Failed, or of Ready and Stalled, are True.
// It is meant for the end of a run. It considers the resources that the run wrote.
func ConsistentConditions() Invariant {
	return Invariant{Name: "no object has contradictory conditions", Check: func(v View) error {
		seen := map[string]bool{}
		run := v.Run()
		for i := range run.Steps {
			s := &run.Steps[i]
			if !s.Wrote() || seen[s.Resource] || history.Bookkeeping(s.Resource) {
				continue
			}
			seen[s.Resource] = true
			for _, o := range v.List(s.Resource) {
				if err := contradiction(o); err != nil {
					return fmt.Errorf("%s %s: %w", s.Resource, history.Object{Namespace: o.GetNamespace(), Name: o.GetName()}.Key(), err)
				}
			}
		}
		return nil
	}}
}

func contradiction(o *unstructured.Unstructured) error {
	conditions, _, _ := unstructured.NestedFieldNoCopy(o.Object, "status", "conditions")
	list, _ := conditions.([]any)
	statuses := map[string]string{}
	for _, c := range list {
		c, _ := c.(map[string]any)
		typ, _ := c["type"].(string)
		status, _ := c["status"].(string)
		if other, twice := statuses[typ]; twice && other != status {
			return fmt.Errorf("condition %s is both %s and %s", typ, other, status)
		}
		statuses[typ] = status
	}
	for _, pair := range contradictions {
		if statuses[pair[0]] == "True" && statuses[pair[1]] == "True" {
			return fmt.Errorf("conditions %s and %s are both True", pair[0], pair[1])
		}
	}
	return nil
}
