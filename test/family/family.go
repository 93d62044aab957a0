// Package family searches many cases of one kind: a family is a set of cases that are drawn from seeds, such
// as a Job or a CloneSet with the behaviour of its pods and the changes of its user, and run with a
// controller.
//
// It depends neither on the kind nor on its invariants: test/jobs and test/clonesets draw their cases and run
// them. It fails no test either: callers decide what a failure means, because some test controllers that must
// fail.
package family

import (
	"fmt"
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// Case is one case of a family.
type Case interface {
	// String returns the case as text.
	String() string
	// Test returns the test of the case with a controller. The faults are some of the patterns; without
	// patterns, all that the family allows.
	Test(controller simtest.Constructor, patterns ...fault.Fault) func(*simtest.World)
}

// Draws returns the cases of n consecutive seeds.
func Draws[C Case](draw func(seed int) C, from, n int) (cases []C) {
	for seed := from; seed < from+n; seed++ {
		cases = append(cases, draw(seed))
	}
	return cases
}

// Found is a failure that the search of one case has found.
type Found[C Case] struct {
	Case   C
	Result *sim.Result
}

// Rehearse searches each of some cases for the runs that the options ask for, up to the first failure of each,
// and returns those that failed and how many runs there were. It logs failures, and does not fail the test.
func Rehearse[C Case](t testing.TB, o simtest.Options, controller simtest.Constructor, cases []C, patterns ...fault.Fault) (found []Found[C], played int) {
	t.Helper()
	for _, c := range cases {
		r := simtest.Explore(t, o, c.Test(controller, patterns...))
		played += r.Runs
		if r.Failure != nil {
			found = append(found, Found[C]{c, r})
			t.Log(found[len(found)-1])
		}
		if t.Context().Err() != nil {
			break
		}
	}
	return found, played
}

// String returns the failure, its case and its faults as text.
func (f Found[C]) String() string {
	x := f.Result.Failure
	return fmt.Sprintf("found in run %d, %s, %d steps: %s: %s\n%q\n%s", x.FoundAfter, x.Grade(), len(x.Run.Steps),
		x.Run.Failure.Oracle, x.Run.Failure.Message, x.Run.Faults, f.Case)
}

// AnyFault returns the patterns of all legal faults of an actor, except a second concurrent instance: workload
// controllers rely on one leader at a time.
func AnyFault(actor string) (patterns []fault.Fault) {
	for _, f := range fault.Any(fault.Legal) {
		if f.Kind != fault.KindOverlap {
			f.Actor = actor
			patterns = append(patterns, f)
		}
	}
	return patterns
}
