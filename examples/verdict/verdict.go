// Package verdict has the assertions of the examples' tests: the search finds the bug of a naive
// controller within the limits, with few faults and steps, or it finds no failure of a correct
// controller.
//
// The limits are those of the design: 2,000 runs, three faults, forty steps. The design also says
// ten seconds, but a test cannot assert time on an unknown machine; the time is logged. Only these
// tests use the package.
package verdict

import (
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/report"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/simtest"
)

const (
	mostRuns   = 2000
	mostTime   = time.Minute
	mostFaults = 3
	mostSteps  = 40
)

// Found searches a test for a failure, without restricting the faults. It fails t if the search finds none, or if the
// failure does not reproduce, has too many faults or steps, or needs fewer faults; or if its cause is not the known one.
// cause is part of that sentence: the write that is harmful or missing.
func Found(t *testing.T, cause string, test func(*simtest.World)) {
	t.Helper()
	r := simtest.Explore(t, simtest.Seeds(mostRuns).Budget(mostTime), test)
	f := r.Failure
	if f == nil {
		t.Fatalf("no failure was found in %d runs, %d of them different, %s; stopped: %q", r.Runs, r.Distinct, r.Elapsed, r.Stopped)
	}
	t.Logf("found in run %d, %s; shrunk in %d runs to %d faults and %d steps; %s in all\n%s: %s\n%q, %s",
		f.FoundAfter, f.Grade(), f.ShrinkRuns, len(f.Plan.Faults), len(f.Run.Steps), r.Elapsed.Round(time.Millisecond),
		f.Run.Failure.Oracle, f.Run.Failure.Message, f.Run.Faults, f.Run.Schedule)
	if sentence := report.Cause(f.Run, f.Nearest); !strings.Contains(sentence, cause) {
		t.Errorf("the cause is\n%s\nand does not contain\n%s", sentence, cause)
	}
	if len(f.Plan.Faults) == 0 && f.Plan.Schedule.IsZero() {
		t.Errorf("the test fails without any fault and schedule, so the failure is not a race")
	}
	if len(f.Plan.Faults) > mostFaults || len(f.Run.Steps) > mostSteps {
		t.Errorf("%d faults and %d steps are too many", len(f.Plan.Faults), len(f.Run.Steps))
	}
	if f.Same < 3 {
		t.Errorf("the failure reproduces in %d of 3 repeats", f.Same)
	}
	Minimal(t, f, simtest.Options{}, test)
}

// Minimal fails t if the test fails in the same way with fewer of the faults of a failure: it plays every proper subset
// of them with the failure's schedule, and all of them without it.
func Minimal(t *testing.T, f *sim.Failure, o simtest.Options, test func(*simtest.World)) {
	t.Helper()
	all, schedule := f.Plan.Faults, f.Plan.Schedule
	var fewer [][]fault.Fault
	for set := range 1<<len(all) - 1 {
		var some []fault.Fault
		for n, one := range all {
			if set>>n&1 == 1 {
				some = append(some, one)
			}
		}
		if len(some) > 0 || !schedule.IsZero() { // the empty set without a schedule is that of the runs without faults
			fewer = append(fewer, some)
		}
	}
	o, smaller := o.FirstScheduled(schedule, fewer...), len(fewer)
	if len(all) > 0 && !schedule.IsZero() {
		o, smaller = o.First(all), smaller+1
	}
	const withoutFaults = 3
	r := simtest.Explore(t, o.Seed(f.Plan.Seed).Seeds(withoutFaults+smaller).KeepGoing(), test)
	for _, other := range append(r.Failures, r.SeenOnce...) {
		if same(f, other) {
			t.Errorf("it fails with the faults %q as well as with %q; schedules: %s; %s", other.Run.Faults, f.Run.Faults, other.Run.Schedule, f.Run.Schedule)
		}
	}
}

// same reports whether two failures violate the same invariant.
func same(a, b *sim.Failure) bool { return a.Run.Failure.Oracle == b.Run.Failure.Oracle }

// Clean runs a search and fails t if it finds a failure.
func Clean(t *testing.T, runs int, test func(*simtest.World)) {
	t.Helper()
	simtest.Run(t, simtest.Seeds(runs), test)
}
