package sim_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// updating is a world whose actor updates six ConfigMaps and six Secrets, and sends a patch after each rejected update. answers has the code by which a request
// with a fault is answered. played are the plans.
type updating struct {
	answers func(f fault.Fault) int
	played  []sim.Plan
}

func (w *updating) Play(_ context.Context, p sim.Plan) (*sim.Outcome, error) {
	w.played = append(w.played, p)
	plan := fault.NewPlan(p.Faults)
	run := &history.Run{Header: history.Header{Format: history.Format, Seed: p.Seed, Faults: fault.Strings(p.Faults)}}
	run.Add(history.Step{Kind: history.Start, Actor: "a"})
	write := func(verb, resource, name string) (code int) {
		n := int64(len(run.Steps))
		s := history.Step{
			Kind: history.Request, Actor: "a", Verb: verb, Object: history.Object{Resource: resource, Namespace: "default", Name: name},
			Code: 200, Revision: n + 1, Before: n, Guarded: true, Versioned: verb == "update",
		}
		for _, f := range plan.Meet(fault.Item{Class: fault.Call, Actor: "a", Verb: verb, Resource: resource, Object: s.Key(), Write: true, Versioned: s.Versioned}) {
			s.Fault, s.Code = f.String(), w.answers(f)
		}
		if s.Code != 200 {
			s.Revision, s.Before = 0, 0
		}
		run.Add(s)
		return s.Code
	}
	for n := range 12 {
		if write("update", []string{"configmaps", "secrets"}[n/6], fmt.Sprint("m", n)) != 200 {
			write("patch", "deployments.apps", "db")
		}
	}
	return &sim.Outcome{Run: run, Unmet: plan.Unmet()}, nil
}

// singles returns the numbers of the plans with one fault of a kind.
func (w *updating) singles(k fault.Kind) (at []int) {
	for n, p := range w.played {
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
			w := &updating{answers: func(f fault.Fault) int {
				switch {
				case f.Kind == fault.KindDeny:
					return 403
				case f.Kind == fault.KindTimeout && slices.Contains(strings.Fields(c.differs), f.Object):
					return 504
				}
				return 500
			}}
			r := search(t, w, sim.Options{Seed: 1, Runs: 200, Patterns: patterns})
			timeouts, denials := w.singles(fault.KindTimeout), w.singles(fault.KindDeny)
			if len(timeouts) != 12 || len(denials) != 12 || r.Systematic != r.SystematicTotal {
				t.Fatalf("%d timeouts and %d denials of 12 were tried, %d of %d single faults", len(timeouts), len(denials), r.Systematic, r.SystematicTotal)
			}
			before := map[string]int{}
			for _, n := range timeouts {
				if n < slices.Max(denials) {
					before[w.played[n].Faults[0].Resource]++
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
		w := &updating{answers: func(f fault.Fault) int {
			switch {
			case f.Kind == fault.KindConflict:
				return 409
			case f.Kind == fault.KindLateRequest && !slices.Contains(strings.Fields(changes), f.Object):
				return 200
			}
			return 500
		}}
		search(t, w, sim.Options{Seed: 1, Runs: 120, Patterns: []fault.Fault{fault.Of(fault.KindConflict), fault.Of(fault.KindError), fault.Of(fault.KindLateRequest)}})
		first := func(k fault.Kind) int { // the first plan with such a fault of the second object after a conflict of the first
			return slices.IndexFunc(w.played, func(p sim.Plan) bool {
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
	w := &updating{answers: func(f fault.Fault) int {
		if f.Kind == fault.KindError {
			return 503
		}
		return 500
	}}
	search(t, w, sim.Options{Seed: 1, Runs: 200, Patterns: []fault.Fault{fault.Of(fault.KindCrashAfter), fault.Of(fault.KindLostAnswer), fault.Of(fault.KindError)}})
	lost, crashes, failed := w.singles(fault.KindLostAnswer), w.singles(fault.KindCrashAfter), w.singles(fault.KindError)
	if len(lost) != 12 || len(crashes) != 12 || len(failed) != 12 || max(lost[5], crashes[5]) > slices.Min(failed) {
		t.Errorf("lost answers were tried in %v, crashes in %v, errors in %v", lost, crashes, failed)
	}
}
