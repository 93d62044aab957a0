package sim_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// updating is a world whose actor updates six ConfigMaps and six Secrets, and sends a patch after each rejected update. It is the code by which a
// request with a fault is answered.
type updating func(f fault.Fault) int

func (answers updating) Play(_ context.Context, p sim.Plan) (*sim.Outcome, error) {
	w := newWriter(p, answers)
	for n := range 12 {
		if w.write("update", []string{"configmaps", "secrets"}[n/6], fmt.Sprint("m", n)).Code != 200 {
			w.write("patch", "deployments.apps", "db")
		}
	}
	return &sim.Outcome{Run: w.run, Unmet: w.plan.Unmet()}, nil
}

// singles returns the numbers of the plans with one fault of a kind.
func singles(played []sim.Plan, k fault.Kind) (at []int) {
	for n, p := range played {
		if len(p.Faults) == 1 && p.Faults[0].Kind == k {
			at = append(at, n)
		}
	}
	return at
}

// TestSameEffect: where an error and a timeout had the same run at two places, the timeout is tried late at the others, after kinds that are
// otherwise tried later. If they differed at one place, it is not late at the places of that resource.
func TestSameEffect(t *testing.T) {
	patterns := []fault.Fault{fault.Of(fault.KindError), fault.Of(fault.KindTimeout), fault.Of(fault.KindDeny)}
	for _, c := range []struct {
		name                string
		differs             string // the objects at which a timeout is answered 504, and not 500
		configMaps, secrets int    // how many of six timeouts of each are tried before the last denial
	}{
		{"nowhere", "", 2, 1},
		{"one ConfigMap", "default/m0", 3, 2}, // of three, two showed nothing new: the others cost more
		{"the Secrets", "default/m6 default/m7 default/m8 default/m9 default/m10 default/m11", 2, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			var played []sim.Plan
			w := recording{updating(func(f fault.Fault) int {
				switch {
				case f.Kind == fault.KindDeny:
					return 403
				case f.Kind == fault.KindTimeout && slices.Contains(strings.Fields(c.differs), f.Object):
					return 504
				}
				return 500
			}), &played}
			r := search(t, w, sim.Options{Seed: 1, Runs: 200, Patterns: patterns})
			timeouts, denials := singles(played, fault.KindTimeout), singles(played, fault.KindDeny)
			if len(timeouts) != 12 || len(denials) != 12 || r.Systematic != r.SystematicTotal {
				t.Fatalf("%d timeouts and %d denials of 12 were tried, %d of %d single faults", len(timeouts), len(denials), r.Systematic, r.SystematicTotal)
			}
			before := map[string]int{}
			for _, n := range timeouts {
				if n < slices.Max(denials) {
					before[played[n].Faults[0].Resource]++
				}
			}
			if before["configmaps"] != c.configMaps || before["secrets"] != c.secrets {
				t.Errorf("before the last denial, timeouts were tried at %v", before)
			}
		})
	}
}

// TestSameEffectInExtension: after a conflict, a late request is tried before an error, because it finds failures more often; but after it if it
// changed nothing wherever it was the only fault.
func TestSameEffectInExtension(t *testing.T) {
	for changes, before := range map[string]bool{"default/m0 default/m1 default/m2 default/m3": true, "default/m3": true, "": false} {
		var played []sim.Plan
		w := recording{updating(func(f fault.Fault) int {
			switch {
			case f.Kind == fault.KindConflict:
				return 409
			case f.Kind == fault.KindLateRequest && !slices.Contains(strings.Fields(changes), f.Object):
				return 200
			}
			return 500
		}), &played}
		search(t, w, sim.Options{Seed: 1, Runs: 120, Patterns: []fault.Fault{fault.Of(fault.KindConflict), fault.Of(fault.KindError), fault.Of(fault.KindLateRequest)}})
		first := func(k fault.Kind) int { // the first plan with such a fault of the second object after a conflict of the first
			return slices.IndexFunc(played, func(p sim.Plan) bool {
				return len(p.Faults) == 2 && p.Faults[0].Kind == fault.KindConflict && p.Faults[0].Object == "default/m0" && p.Faults[1].Kind == k && p.Faults[1].Object == "default/m1"
			})
		}
		late, failed := first(fault.KindLateRequest), first(fault.KindError)
		if late < 0 || failed < 0 || (late < failed) != before {
			t.Errorf("a late request of %q changes something: after a conflict it is tried in run %d, and an error in run %d", changes, late+1, failed+1)
		}
	}
}

// TestEachPlaceOnce: the most promising kinds are tried at the first places of each resource before other kinds, also if they have the same effect.
func TestEachPlaceOnce(t *testing.T) {
	var played []sim.Plan
	w := recording{updating(func(f fault.Fault) int {
		if f.Kind == fault.KindError {
			return 503
		}
		return 500
	}), &played}
	search(t, w, sim.Options{Seed: 1, Runs: 200, Patterns: []fault.Fault{fault.Of(fault.KindCrashAfter), fault.Of(fault.KindLostAnswer), fault.Of(fault.KindError)}})
	lost, crashes, failed := singles(played, fault.KindLostAnswer), singles(played, fault.KindCrashAfter), singles(played, fault.KindError)
	if len(lost) != 12 || len(crashes) != 12 || len(failed) != 12 || max(lost[5], crashes[5]) > slices.Min(failed) {
		t.Errorf("lost answers were tried in %v, crashes in %v, errors in %v", lost, crashes, failed)
	}
}
