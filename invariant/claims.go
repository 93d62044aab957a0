package invariant

import (
	"fmt"

	"github.com/rehearse-k8s/rehearse/history"
)

const claims = "persistentvolumeclaims"

// NoClaimDeleted returns an invariant that is violated when a controller deletes a PersistentVolumeClaim: its data is
// lost, also if the controller creates a claim with the same name again. It holds once another user has deleted
// an object, because a claim may belong to that object. It says nothing about a controller that deletes claims by
// design: such a controller does so without faults too.
func NoClaimDeleted() Invariant {
	return Invariant{Name: "no controller deletes a PersistentVolumeClaim", Check: func(v View) error {
		controllers := map[string]bool{}
		run := v.Run()
		for i := range run.Steps {
			s := &run.Steps[i]
			switch {
			case s.Kind == history.Start:
				controllers[s.Actor] = true
			case s.Verb != "delete" && s.Verb != "deletecollection" || !s.Wrote():
			case s.Actor == history.OtherUser:
				return nil
			case s.Resource == claims && s.Subresource == "" && controllers[s.Actor]:
				return &StepError{s.N, fmt.Sprintf("%s deleted %s", s.Actor, s.Key())}
			}
		}
		return nil
	}}
}
