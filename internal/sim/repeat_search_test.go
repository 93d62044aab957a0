package sim_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// race is a toy in which every nth run of some plans fails.
func race(fails func(p sim.Plan) bool, nth int) *toy {
	n := 0
	return &toy{odd: true, breaks: func(p sim.Plan) bool {
		if !fails(p) {
			return false
		}
		n++
		return n%nth == 0
	}}
}

func always(sim.Plan) bool { return true }

// TestSeenOnce: a failure that does not reproduce is listed, and the search continues. Its repeats count as runs.
func TestSeenOnce(t *testing.T) {
	n := 0
	w := &toy{odd: true, breaks: func(p sim.Plan) bool {
		n++
		return n == 5
	}}
	var reported []string
	repeats := func(run, repeats int) { reported = append(reported, fmt.Sprint(run, ":", repeats)) }
	r := search(t, w, sim.Options{Runs: 60, Live: true, Repeats: repeats})
	if first, last := reported[0], reported[len(reported)-2:]; first != "5:0" || !slices.Equal(last, []string{"5:20", "0:0"}) {
		t.Errorf("reported %v", reported)
	}
	if r.Failure != nil || len(r.Failures) != 0 || len(r.SeenOnce) != 1 || r.Runs != 40 || r.Repeats != 20 || len(w.played) != 60 {
		t.Fatalf("%+v", r)
	}
	f := r.SeenOnce[0]
	if f.Grade() != "reproduced 0 of 20" || f.FoundAfter != 5 || f.Times != 1 || f.ShrinkRuns != 0 || f.Run.Failure == nil || len(f.Plan.Faults) != 1 || f.Nearest == nil {
		t.Errorf("%+v", f)
	}
}

// TestSeenOnceAgain: a failure that was seen once is repeated only three times when it is seen again; if it then
// reproduces, it is a failure.
func TestSeenOnceAgain(t *testing.T) {
	for _, last := range []int{0, 8} {
		n := 0
		w := &toy{odd: true}
		w.breaks = func(p sim.Plan) bool {
			n++
			// Runs 5, 26 and 30 of the world are the first ones of their plans.
			return n == 5 || n == 26 || n >= 30 && n < 30+last
		}
		r := search(t, w, sim.Options{Runs: 100, Live: true})
		if last == 0 {
			if r.Failure != nil || len(r.SeenOnce) != 1 || r.SeenOnce[0].Times != 2 || r.Repeats != 23 {
				t.Errorf("%+v", r)
			}
			continue
		}
		if r.Failure == nil || r.Failure.Times != 3 || len(r.SeenOnce) != 0 || len(r.Failures) != 1 || r.Repeats != 20+3+3 {
			t.Errorf("%+v", r)
		}
	}
}

// TestRateWithoutFaults: a race that needs no fault is shrunk to the empty plan, whichever fault the run had that
// found it.
func TestRateWithoutFaults(t *testing.T) {
	runs := 0
	for _, nth := range []int{3, 5} {
		w := race(func(sim.Plan) bool {
			runs++
			return runs > 3 // the baseline passes
		}, nth)
		r := search(t, w, sim.Options{Runs: 200, Live: true})
		if r.Failure == nil || len(r.Failure.Plan.Faults) != 0 || len(r.Failure.Run.Faults) != 0 || r.Failure.FoundFaults != 1 {
			t.Fatalf("each %d: %+v", nth, r.Failure)
		}
		if f := r.Failure; f.Repeats != 20 || f.Same < 20/nth || f.Same > 20/nth+1 {
			t.Errorf("each %d: %s", nth, f.Grade())
		}
		runs = 0
	}
}

// TestRateInBaseline: a race that the runs without faults show ends the search if it reproduces. Otherwise, the
// search has a baseline of runs that passed.
func TestRateInBaseline(t *testing.T) {
	if r := search(t, race(always, 3), sim.Options{Runs: 200, Live: true}); r.Failure == nil || r.Failure.Grade() != "reproduced 6 of 20" || r.Runs != 3 {
		t.Errorf("%+v", r)
	}
	n := 0
	w := &toy{odd: true, breaks: func(sim.Plan) bool { n++; return n == 2 }}
	if r := search(t, w, sim.Options{Runs: 200, Live: true}); r.Failure != nil || len(r.SeenOnce) != 1 || r.Baseline == nil || r.Baseline.Failure != nil || r.Systematic == 0 {
		t.Errorf("%+v", r)
	}
	r := search(t, &toy{breaks: always}, sim.Options{Runs: 200, KeepGoing: true})
	if r.Failure == nil || r.Runs != 1 || r.Baseline != nil {
		t.Errorf("%+v", r)
	}
}

// TestUnfired: the plan of a failure has no fault that did not fire.
func TestUnfired(t *testing.T) {
	faults := parse(t,
		"conflict actor=a verb=update resource=pods/status object=default/p1 nth=1",
		"conflict actor=a verb=update resource=pods/status object=default/p1 nth=7",
		"lag actor=b nth=1",
	)
	w := &toy{breaks: func(p sim.Plan) bool { return has(p, fault.KindConflict, "default/p1") }}
	r := search(t, w, sim.Options{First: []sim.Plan{{Seed: 1, Faults: faults}}})
	if f := r.Failure; f == nil || f.FoundFaults != 3 || len(f.Plan.Faults) != 1 || f.Plan.Faults[0] != faults[0] || !slices.Equal(f.Run.Faults, fault.Strings(f.Plan.Faults)) {
		t.Fatalf("%+v", f)
	}
	if slices.ContainsFunc(w.played[4:], func(p sim.Plan) bool { return has(p, fault.KindLag, "") }) {
		t.Error("a fault that did not fire was repeated")
	}

	n := 0
	w = &toy{odd: true, breaks: func(p sim.Plan) bool { n++; return n == 4 }}
	r = search(t, w, sim.Options{Runs: 30, Live: true, First: []sim.Plan{{Seed: 1, Faults: faults}}})
	if len(r.SeenOnce) != 1 || len(r.SeenOnce[0].Run.Faults) != 1 || r.SeenOnce[0].Run.Faults[0] != faults[0].String() {
		t.Errorf("%+v", r.SeenOnce)
	}
}

// TestHidden: a fault that no step names, because another one acted on the same request, stays if it is needed.
func TestHidden(t *testing.T) {
	faults := parse(t, "error actor=a object=default/p1 nth=1", "conflict actor=a object=default/p1 nth=1")
	w := &toy{breaks: func(p sim.Plan) bool {
		return has(p, fault.KindConflict, "default/p1") && has(p, fault.KindError, "default/p1")
	}}
	r := search(t, w, sim.Options{First: []sim.Plan{{Seed: 1, Faults: faults}}})
	if r.Failure == nil || len(r.Failure.Plan.Faults) != 2 || r.Failure.Grade() != "3/3 identical" {
		t.Errorf("%+v", r.Failure)
	}
}

// TestKeepGoing: the search continues after failures that reproduce, and lists each kind once.
func TestKeepGoing(t *testing.T) {
	breaks := func(p sim.Plan) bool {
		return has(p, fault.KindConflict, "default/p1") || has(p, fault.KindConflict, "default/p2") || has(p, fault.KindLag, "default/p2")
	}
	message := func(p sim.Plan) string {
		if has(p, fault.KindLag, "default/p2") {
			return "pods default/p2: 2 at the end"
		}
		if has(p, fault.KindConflict, "default/p1") {
			return "pods default/p1: it was rejected"
		}
		return "pods default/p2: it was rejected"
	}
	for _, parallel := range []int{1, 4} { // with 4, it depends on the order in which runs end how often a single failure is found: 1 to 30 times
		r, err := sim.Search(t.Context(), &crowd{toy: toy{breaks: breaks, message: message}}, sim.Options{Runs: 1000, KeepGoing: true, Live: parallel > 1, Parallel: parallel})
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		times := 0
		for _, f := range r.Failures {
			times += f.Times
			if len(f.Plan.Faults) != 1 || f.Same != 3 {
				t.Errorf("%+v", f)
			}
			found = append(found, fmt.Sprintf("%s %s", f.Plan.Faults[0].Kind, f.Plan.Faults[0].Object))
		}
		slices.Sort(found)
		if got := strings.Join(found, ", "); got != "conflict default/p1, conflict default/p2, lag default/p2" {
			t.Errorf("%d at a time: %s", parallel, got)
		}
		if r.Failure != r.Failures[0] || r.Systematic != r.SystematicTotal || r.Runs+r.Repeats != 1000 || times < 30 || parallel == 1 && r.Failures[0].Times < 2 {
			t.Errorf("%d at a time: %d runs, %d repeats, %d of %d places, %d failed runs", parallel, r.Runs, r.Repeats, r.Systematic, r.SystematicTotal, times)
		}
	}
}

// TestSameViolation: a smaller plan that violates the same invariant for another object is not accepted.
func TestSameViolation(t *testing.T) {
	w := &toy{
		breaks:  func(p sim.Plan) bool { return has(p, fault.KindConflict, "default/p1") },
		message: func(p sim.Plan) string { return fmt.Sprintf("pods default/web-%d has too many", len(p.Faults)) },
	}
	faults := parse(t, "conflict actor=a object=default/p1 nth=1", "conflict actor=a object=default/p2 nth=1")
	r := search(t, w, sim.Options{First: []sim.Plan{{Seed: 1, Faults: faults}}})
	if r.Failure == nil || len(r.Failure.Plan.Faults) != 2 {
		t.Errorf("%+v", r.Failure)
	}
}

// TestRepeatsBudget: no more than the first repeats are played when the budget has run out.
func TestRepeatsBudget(t *testing.T) {
	now, n := time.Unix(0, 0), 0
	w := &toy{odd: true, breaks: func(sim.Plan) bool {
		n++
		if n == 5 {
			now = now.Add(time.Hour)
		}
		return n == 5
	}}
	r := search(t, w, sim.Options{Runs: 100, Budget: time.Minute, Live: true, Now: func() time.Time { return now }})
	if len(r.SeenOnce) != 1 || r.SeenOnce[0].Grade() != "reproduced 0 of 3" || r.Stopped != "its budget of 1m0s ran out" {
		t.Errorf("%+v", r)
	}
}

// TestFailureShare: a search that keeps going spends a tenth of its budget to raise the rate of a failure, and one that ends with it has no such limit.
func TestFailureShare(t *testing.T) {
	for keepGoing, most := range map[bool]time.Duration{true: 13 * time.Minute, false: time.Hour} { // with the repeats that decide whether it reproduces
		now, n := time.Unix(0, 0), 0
		w := &toy{odd: true, breaks: func(p sim.Plan) bool {
			if len(p.Faults) == 0 || p.Faults[0].Kind != fault.KindLag {
				return false
			}
			now = now.Add(20 * time.Second)
			n++
			return n%5 == 1
		}}
		first := []sim.Plan{{Seed: 1, Faults: parse(t, "lag actor=a resource=pods object=default/p1 nth=1")}}
		r := search(t, w, sim.Options{Runs: 4, Budget: 50 * time.Minute, KeepGoing: keepGoing, Live: true, First: first, Now: func() time.Time { return now }})
		took := now.Sub(time.Unix(0, 0))
		if len(r.Failures) != 1 || r.Failures[0].ShrinkRuns < 15 || took > most || !keepGoing && took < 20*time.Minute {
			t.Errorf("keeps going: %v, took %s: %+v", keepGoing, took, r.Failures)
		}
	}
}

// TestShareOfShrinking: it stops shrinking a failure then, too.
func TestShareOfShrinking(t *testing.T) {
	for keepGoing, want := range map[bool]func(faults int) bool{
		true: func(faults int) bool { return faults > 1 }, false: func(faults int) bool { return faults == 1 },
	} {
		now := time.Unix(0, 0)
		w := &toy{breaks: func(p sim.Plan) bool {
			if len(p.Faults) > 0 {
				now = now.Add(2 * time.Minute)
			}
			return has(p, fault.KindLag, "default/p1")
		}}
		first := []sim.Plan{{Seed: 1, Faults: parse(t, "lag actor=a resource=pods object=default/p0 nth=1", "lag actor=a resource=pods object=default/p1 nth=1", "lag actor=a resource=pods object=default/p2 nth=1")}}
		r := search(t, w, sim.Options{Runs: 4, Budget: 50 * time.Minute, KeepGoing: keepGoing, Live: true, First: first, Now: func() time.Time { return now }})
		if len(r.Failures) != 1 || !want(len(r.Failures[0].Plan.Faults)) {
			t.Errorf("keeps going: %v: %+v", keepGoing, r.Failures)
		}
	}
}

// TestInterruptedRepeats: a failure whose repeats are interrupted is listed.
func TestInterruptedRepeats(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	w := &toy{odd: true, breaks: func(sim.Plan) bool {
		n++
		if n == 7 {
			cancel()
		}
		return n >= 5
	}}
	r, err := sim.Search(ctx, w, sim.Options{Runs: 100, Live: true})
	if err != nil || r.Failure != nil || len(r.SeenOnce) != 1 || r.SeenOnce[0].Grade() != "not repeated" || r.Stopped != "interrupted" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestMechanisms: a violation that a late event causes, and also a crash, is listed twice, because no fault of the one is needed for the other. One that
// an expired watch causes as well has the mechanism of the late event.
func TestMechanisms(t *testing.T) {
	w := &toy{
		breaks: func(p sim.Plan) bool {
			return has(p, fault.KindRelist, "") || has(p, fault.KindLag, "") || has(p, fault.KindCrashAfter, "default/p1")
		},
		message: func(sim.Plan) string { return "pods default/p1: there are two" },
	}
	r := search(t, w, sim.Options{Runs: 1000, KeepGoing: true})
	var found []string
	for _, f := range r.Failures {
		for _, f := range f.Plan.Faults {
			found = append(found, string(f.Kind))
		}
	}
	slices.Sort(found)
	if !slices.Equal(found, []string{"crash-after", "lag"}) && !slices.Equal(found, []string{"crash-after", "relist"}) {
		t.Errorf("listed: %v", found)
	}
}
