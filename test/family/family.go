// Package family searches many cases of one kind: a family is whatever can be drawn from a
// seed, such as a Job or a CloneSet with what its pods do and what its user changes in the
// middle, and told as a story with a controller.
//
// It knows neither the kind nor what is promised of it: test/jobs and test/clonesets draw
// their cases and tell them. It fails no test either; what was found is for the caller to
// judge, who may want controllers to fail.
package family

import (
	"fmt"
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// Case is one of a family.
type Case interface {
	// String is the case as people read it.
	String() string
	// Test tells it with a controller. What goes wrong is one of some patterns; without
	// any, whatever the family allows.
	Test(controller simtest.Constructor, patterns ...fault.Fault) func(*simtest.World)
}

// Draws are the cases of n seeds from one on.
func Draws[C Case](draw func(seed int) C, from, n int) (cases []C) {
	for seed := from; seed < from+n; seed++ {
		cases = append(cases, draw(seed))
	}
	return cases
}

// Found is what a search of one case found.
type Found[C Case] struct {
	Case   C
	Result *sim.Result
}

// Rehearse searches each of some cases for the runs that the options ask for, up to the
// first failure of each, and returns those that failed and how many runs there were. It
// logs what it finds, and does not fail the test.
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

// String says what was found, in which case, and by which faults.
func (f Found[C]) String() string {
	x := f.Result.Failure
	return fmt.Sprintf("found in run %d, %s, %d steps: %s: %s\n%q\n%s", x.FoundAfter, x.Grade(), len(x.Run.Steps),
		x.Run.Failure.Oracle, x.Run.Failure.Message, x.Run.Faults, f.Case)
}

// AnyFault are the patterns of all legal faults of an actor, but for a second instance
// beside the first: one leader at a time is what controllers of workloads rely on.
func AnyFault(actor string) (patterns []fault.Fault) {
	for _, f := range fault.Any(fault.Legal) {
		if f.Kind != fault.KindOverlap {
			f.Actor = actor
			patterns = append(patterns, f)
		}
	}
	return patterns
}
