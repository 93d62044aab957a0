package sim_test

import (
	"slices"
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// TestSchedulesAreTried: some runs without faults have a schedule from the beginning, and so has a share of those with several
// faults; single faults have none. Two searches with one seed try the same.
func TestSchedulesAreTried(t *testing.T) {
	played := func(o sim.Options) (*toy, *sim.Result) {
		w := &toy{choices: 30, odd: true}
		o.Seed = 1
		return w, search(t, w, o)
	}
	w, r := played(sim.Options{Runs: 400})
	alone, several, combined, single, depths := 0, 0, 0, 0, map[int]bool{}
	for _, p := range w.played[:400] {
		scheduled := !p.Schedule.IsZero()
		switch {
		case scheduled && p.Schedule.Choices != 30:
			t.Fatalf("%+v", p.Schedule)
		case scheduled && len(p.Faults) == 0:
			alone++
			depths[p.Schedule.Depth] = true
		case len(p.Faults) == 1 && !scheduled:
			single++
		case len(p.Faults) > 1:
			several++
			if scheduled {
				combined++
			}
		}
	}
	if alone < 400/10 || len(depths) != 4 || combined < several/4 || combined > 3*several/4 || single < r.Systematic {
		t.Errorf("%d schedules without faults, %d depths, %d of %d plans with several faults, %d single faults of %d", alone, len(depths), combined, several, single, r.SystematicTotal)
	}
	sameForAnyHold := []fault.Kind{fault.KindRelist, fault.KindLateAnswer, fault.KindDeposedWrite, fault.KindPause}
	for _, p := range r.Places { // all single faults are tried, apart from other durations of a hold that usually makes no difference
		if len(p.Untried) > 0 && (!slices.Contains(sameForAnyHold, p.Kind) || len(p.Tried) == 0) {
			t.Errorf("%s: tried %v, not tried %v", p, p.Tried, p.Untried)
		}
	}
	if r.Schedules < alone+combined {
		t.Errorf("%s; at least %d schedules", r.Tried(), alone+combined)
	}
	if _, r := played(sim.Options{Runs: 1000}); r.Systematic != r.SystematicTotal {
		t.Errorf("after 1,000 runs: %s", r.Tried())
	}
	again, _ := played(sim.Options{Runs: 400})
	for n := range 400 {
		if a, b := w.played[n], again.played[n]; a.Schedule != b.Schedule || !slices.Equal(a.Faults, b.Faults) {
			t.Fatalf("run %d: %+v %q, then %+v %q", n, a.Schedule, a.Faults, b.Schedule, b.Faults)
		}
	}
	if _, r := played(sim.Options{Runs: 60}); r.Schedules < 5 {
		t.Errorf("a short search: %s", r.Tried())
	}
	if _, r := played(sim.Options{Runs: 400, OldestFirst: true}); r.Schedules != 0 {
		t.Errorf("oldest first: %s", r.Tried())
	}
	if r := search(t, &toy{odd: true}, sim.Options{Seed: 1, Runs: 400}); r.Schedules != 0 {
		t.Errorf("a world that cannot choose: %s", r.Tried())
	}
	few := search(t, &toy{choices: 30}, sim.Options{Seed: 1, Runs: 60})
	if few.Schedules < 1 || few.Schedules > 4 {
		t.Errorf("schedules that change nothing: %s", few.Tried())
	}
}

// TestSchedulesWithoutPlaces: a search without any place of a fault tries schedules, and then ends.
func TestSchedulesWithoutPlaces(t *testing.T) {
	r, err := sim.Search(t.Context(), restricted{toy: &toy{choices: 30}}, sim.Options{Seed: 1, Runs: 400})
	if err != nil || r.Schedules != 32 || r.Runs != 3+32 {
		t.Errorf("%v, %s", err, r.Tried())
	}
}

// TestScheduleShrinks: of a failing plan with a schedule and faults remains what the failure needs.
func TestScheduleShrinks(t *testing.T) {
	first := sim.Plan{Seed: 1, Schedule: history.Schedule{Seed: 5, Depth: 4, Choices: 30}, Faults: parse(t, "lag actor=a resource=pods object=default/p0 nth=1", "conflict actor=a verb=update resource=pods/status object=default/p1 nth=1")}
	for name, c := range map[string]struct {
		breaks func(p sim.Plan) bool
		depth  int
		faults int
		needs  string
	}{
		"both":          {func(p sim.Plan) bool { return p.Schedule.Depth >= 2 && has(p, fault.KindLag, "default/p0") }, 2, 1, ""},
		"faults":        {func(p sim.Plan) bool { return has(p, fault.KindLag, "") && has(p, fault.KindConflict, "") }, 0, 2, ""},
		"the schedule":  {func(p sim.Plan) bool { return p.Schedule.Depth >= 3 }, 3, 0, "needs no fault, only the order of the schedule"},
		"any schedule":  {func(p sim.Plan) bool { return p.Schedule.Depth >= 1 }, 1, 0, "needs no fault, only the order of the schedule"},
		"a larger seed": {func(p sim.Plan) bool { return p.Schedule == first.Schedule }, 4, 0, "needs no fault, only the order of the schedule"},
	} {
		r := search(t, &toy{choices: 30, breaks: c.breaks}, sim.Options{Seed: 1, Runs: 5, First: []sim.Plan{first}})
		f := r.Failure
		if f == nil {
			t.Errorf("%s: no failure", name)
			continue
		}
		s := f.Plan.Schedule
		if s.Depth != c.depth || len(f.Plan.Faults) != c.faults || f.Needs() != c.needs || f.FoundAfter != 4 || f.Run.Schedule != s {
			t.Errorf("%s: found in run %d, shrunk to %+v with %q, needs %q", name, f.FoundAfter, s, f.Plan.Faults, f.Needs())
		}
		if s.Depth > 0 && (s.Seed != 5 || s.Choices != 30) {
			t.Errorf("%s: another schedule %+v", name, s)
		}
	}
}
