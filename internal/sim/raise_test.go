package sim_test

import (
	"slices"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// TestRaisedRate: the search adds a delay near the violation to a race that reproduces rarely, if the failure then
// reproduces more often. The violation of the toy is at its last write.
func TestRaisedRate(t *testing.T) {
	const rarely = 6
	for name, c := range map[string]struct {
		always   func(p sim.Plan) bool // with these plans the race happens each time
		patterns []string
		want     []string
		raised   bool
	}{
		"an event near the violation": {
			always: func(p sim.Plan) bool { return has(p, fault.KindLag, "default/p2") },
			want:   []string{"lag actor=a resource=pods object=default/p2 nth=1"}, raised: true,
		},
		"an answer": {
			always: func(p sim.Plan) bool { return has(p, fault.KindLateAnswer, "default/p2") },
			want:   []string{"late-answer actor=a verb=update resource=pods/status object=default/p2 nth=1"}, raised: true,
		},
		"a delay that the test does not allow": {
			always:   func(p sim.Plan) bool { return has(p, fault.KindLag, "default/p2") },
			patterns: []string{"conflict"},
		},
		"nothing helps": {always: func(sim.Plan) bool { return false }},
	} {
		n := 0
		w := &toy{odd: true}
		w.breaks = func(p sim.Plan) bool {
			if c.always(p) && len(w.played) > 30 { // not as the plan that finds the race
				return true
			}
			n++
			return n > 3 && n%rarely == 0
		}
		o := sim.Options{Runs: 300, Live: true}
		if c.patterns != nil {
			o.Patterns = parse(t, c.patterns...)
		}
		r := search(t, w, o)
		f := r.Failure
		if f == nil {
			t.Fatalf("%s: no failure: %+v", name, r)
		}
		if got := fault.Strings(f.Plan.Faults); !slices.Equal(got, c.want) || (f.Shrunk != nil) != c.raised || !slices.Equal(f.Run.Faults, got) {
			t.Errorf("%s: %q, %s, %+v", name, got, f.Grade(), f.Shrunk)
		}
		if c.raised && (f.Same != 3 || f.Repeats != 3 || len(f.Shrunk.Faults) != 0 || f.Shrunk.Repeats != 20) {
			t.Errorf("%s: %s, %+v", name, f.Grade(), f.Shrunk)
		}
		if f.ShrinkRuns > 200 {
			t.Errorf("%s: %d runs", name, f.ShrinkRuns)
		}
	}
}

// TestLongerHold: a longer hold of a fault of the plan is tried first, and also if the failure reproduces often, but
// not each time. No other delay is added then.
func TestLongerHold(t *testing.T) {
	for name, c := range map[string]struct {
		fails  func(n int) bool // whether the nth run with the short hold fails
		longer time.Duration    // from this hold on, each run fails
		want   time.Duration
	}{
		"rarely":           {func(n int) bool { return n%4 == 1 }, 5 * time.Second, 5 * time.Second},
		"often":            {func(n int) bool { return n%4 != 2 }, 5 * time.Second, 5 * time.Second},
		"often, a little":  {func(n int) bool { return n%4 != 2 }, 2 * time.Second, 2 * time.Second},
		"often, no better": {func(n int) bool { return n%4 != 2 }, time.Minute, 0},
	} {
		n := 0
		w := &toy{odd: true}
		w.breaks = func(p sim.Plan) bool {
			if !has(p, fault.KindLag, "default/p1") {
				return false
			}
			if p.Faults[0].For >= c.longer {
				return true
			}
			n++
			return c.fails(n)
		}
		first := []sim.Plan{{Seed: 1, Faults: parse(t, "lag actor=a resource=pods object=default/p1 nth=1")}}
		r := search(t, w, sim.Options{Runs: 300, Live: true, First: first})
		f := r.Failure
		if f == nil || len(f.Plan.Faults) != 1 || f.Plan.Faults[0].For != c.want || (f.Shrunk != nil) != (c.want > 0) {
			t.Errorf("%s: %+v", name, f)
			continue
		}
		if f.Shrunk != nil && (f.Shrunk.Faults[0].For != 0 || f.Same != f.Repeats) {
			t.Errorf("%s: %s, %+v", name, f.Grade(), f.Shrunk)
		}
	}
}

// TestReplayWithoutFaults: the replay of a race without faults that ends in another state compares that state.
func TestReplayWithoutFaults(t *testing.T) {
	n := 0
	w := &toy{state: func(p sim.Plan) verdict.State {
		n++
		return verdict.NewState([]verdict.Object{{Resource: "configmaps", Content: map[string]any{
			"metadata": map[string]any{"name": "c", "namespace": "default"}, "data": map[string]any{"late": n > 3 && !p.Observe},
		}}})
	}}
	outs, err := sim.Replay(t.Context(), w, sim.Options{Seed: 1, Live: true, Compare: true}, sim.Plan{Seed: 1}, 2)
	if err != nil || len(outs) != 2 || outs[0].Run.Failure == nil || !sim.NeedsBaseline(outs[0].Run) {
		t.Fatalf("%+v, %v", outs, err)
	}
	outs, err = sim.Replay(t.Context(), w, sim.Options{Seed: 1, Live: true}, sim.Plan{Seed: 1}, 2)
	if err != nil || outs[0].Run.Failure != nil || !outs[0].Plan.Learn {
		t.Fatalf("%+v, %v", outs, err)
	}
}
