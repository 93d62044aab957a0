package verdict

import (
	"errors"
	"testing"

	"github.com/rehearse-k8s/rehearse/invariant"
)

// TestPredecessorState: a difference of the final state names the last write to the object, if that was meant for an
// earlier object of the same name. Such a write alone violates nothing.
func TestPredecessorState(t *testing.T) {
	written := func(subresource string) func(invariant.Invariant) error {
		name := invariant.NoPredecessorState("jobs.batch", "default", "pi", subresource).Name
		return func(i invariant.Invariant) error {
			if i.Name == name {
				return &invariant.StepError{Step: 7, Message: "it wrote"}
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		err   error
		check func(invariant.Invariant) error
		want  Unmet
	}{
		"the status":        {differs("jobs.batch default/pi", ".status.ready", "it differs"), written("status"), Unmet{Message: "it differs; it wrote", Step: 7, Path: "status.ready"}},
		"the spec":          {differs("jobs.batch default/pi", ".spec.suspend", "it differs"), written(""), Unmet{Message: "it differs; it wrote", Step: 7, Path: "spec.suspend"}},
		"another part":      {differs("jobs.batch default/pi", ".spec.suspend", "it differs"), written("status"), Unmet{Message: "it differs", Path: "spec.suspend"}},
		"another object":    {differs("jobs.batch default/e", ".status.ready", "it differs"), written("status"), Unmet{Message: "it differs", Path: "status.ready"}},
		"objects of owners": {differs("jobs.batch of default/CronJob pi", ".status.ready", "it differs"), written("status"), Unmet{Message: "it differs", Path: "status.ready"}},
		"a number":          {differs("jobs.batch default/pi", "", "it differs"), written(""), Unmet{Message: "it differs"}},
	} {
		c.want.Oracle, c.want.Resource = BaselineOracle, "jobs.batch"
		f := Final{Baseline: func() error { return c.err }}
		if got, _ := f.Unmet(c.check); len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	none := Final{Baseline: func() error { return nil }}
	if got, _ := none.Unmet(written("status")); len(got) > 0 {
		t.Errorf("a write alone: %+v", got)
	}
	if got, _ := (&Final{Baseline: func() error { return errors.New("it differs") }}).Unmet(written("")); len(got) != 1 || got[0].Step != 0 {
		t.Errorf("a difference without an object: %+v", got)
	}
}
