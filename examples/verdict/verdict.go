// Package verdict is what the tests of the examples ask of a search: that it found what
// is wrong with a naive controller, soon and in a story short enough to be read; or
// that it found nothing wrong with a right one.
//
// The figures are those of the design: 2,000 runs, three faults, forty steps. Ten
// seconds are the aim too, but how fast a machine is no test can promise; the time is
// logged. It is for these tests alone.
package verdict

import (
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/simtest"
)

const (
	mostRuns   = 2000
	mostTime   = time.Minute
	mostFaults = 3
	mostSteps  = 40
)

// Found searches a story for what is wrong with it, without a hint, and fails the test
// if that is not found, not reliable, or told at too great a length.
func Found(t *testing.T, story func(*simtest.World)) *sim.Failure {
	t.Helper()
	r := simtest.Explore(t, simtest.Seeds(mostRuns).Budget(mostTime), story)
	f := r.Failure
	if f == nil {
		t.Fatalf("nothing was found in %d runs, %d of them different, %s; stopped: %q", r.Runs, r.Distinct, r.Elapsed, r.Stopped)
	}
	t.Logf("found in run %d, %s; made small in %d runs to %d faults and %d steps; %s in all\n%s: %s\n%q",
		f.FoundAfter, f.Grade(), f.ShrinkRuns, len(f.Plan.Faults), len(f.Run.Steps), r.Elapsed.Round(time.Millisecond),
		f.Run.Failure.Oracle, f.Run.Failure.Message, f.Run.Faults)
	if len(f.Plan.Faults) == 0 {
		t.Errorf("it fails without any fault: that is no race")
	}
	if len(f.Plan.Faults) > mostFaults || len(f.Run.Steps) > mostSteps {
		t.Errorf("%d faults and %d steps are not to be read at a glance", len(f.Plan.Faults), len(f.Run.Steps))
	}
	if f.Same < 3 {
		t.Errorf("the failure comes again in %d of 3 repeats", f.Same)
	}
	return f
}

// Clean searches a story for a number of runs and fails the test if anything is found.
func Clean(t *testing.T, runs int, story func(*simtest.World)) {
	t.Helper()
	simtest.Run(t, simtest.Seeds(runs), story)
}
