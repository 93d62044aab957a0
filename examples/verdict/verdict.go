// Package verdict has the assertions of the examples' tests: the search finds the bug of a naive
// controller within the limits, with few faults and steps, or it finds no failure of a correct
// controller.
//
// The limits are those of the design: 2,000 runs, three faults, forty steps. The design also says
// ten seconds, but a test cannot assert time on an unknown machine; the time is logged. Only these
// tests use the package.
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

// Found searches a test for a failure, without restricting the faults. It fails t if the search
// finds none, or if the failure does not reproduce or has too many faults or steps.
func Found(t *testing.T, test func(*simtest.World)) *sim.Failure {
	t.Helper()
	r := simtest.Explore(t, simtest.Seeds(mostRuns).Budget(mostTime), test)
	f := r.Failure
	if f == nil {
		t.Fatalf("no failure was found in %d runs, %d of them different, %s; stopped: %q", r.Runs, r.Distinct, r.Elapsed, r.Stopped)
	}
	t.Logf("found in run %d, %s; shrunk in %d runs to %d faults and %d steps; %s in all\n%s: %s\n%q",
		f.FoundAfter, f.Grade(), f.ShrinkRuns, len(f.Plan.Faults), len(f.Run.Steps), r.Elapsed.Round(time.Millisecond),
		f.Run.Failure.Oracle, f.Run.Failure.Message, f.Run.Faults)
	if len(f.Plan.Faults) == 0 {
		t.Errorf("the test fails without any fault, so the failure is not a race")
	}
	if len(f.Plan.Faults) > mostFaults || len(f.Run.Steps) > mostSteps {
		t.Errorf("%d faults and %d steps are too many", len(f.Plan.Faults), len(f.Run.Steps))
	}
	if f.Same < 3 {
		t.Errorf("the failure reproduces in %d of 3 repeats", f.Same)
	}
	return f
}

// Clean runs a search and fails t if it finds a failure.
func Clean(t *testing.T, runs int, test func(*simtest.World)) {
	t.Helper()
	simtest.Run(t, simtest.Seeds(runs), test)
}
