package seeded_test

import (
	"flag"
	"maps"
	"slices"
	"strings"
	"testing"

	examples "github.com/rehearse-k8s/rehearse/examples/verdict"
	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/test/seeded"
)

var siblingRuns = flag.Int("seeded.runs", 150, "runs of the search of each correct sibling")

// withoutFaults is the number of runs without faults that precede the plan.
const withoutFaults = 3

// TestKnownPlans plays the plan of each bug: the stated invariant is violated, each time, and no proper subset of the plan
// violates it.
func TestKnownPlans(t *testing.T) {
	if a, b := slices.Sorted(maps.Keys(bugs)), slices.Sorted(maps.Keys(seeded.Bugs)); !slices.Equal(a, b) {
		t.Fatalf("plans: %q; bugs: %q", a, b)
	}
	for name, b := range bugs {
		t.Run(name, func(t *testing.T) {
			test := b.start(name, false)
			r := simtest.Explore(t, simtest.Seeds(2*withoutFaults+1).First(parsed(t, b.plan)), test)
			f := r.Failure
			if f == nil {
				t.Fatalf("no failure, seen once %v", r.SeenOnce)
			}
			if !strings.HasPrefix(f.Run.Failure.Oracle, b.violates) || f.FoundAfter != withoutFaults+1 {
				t.Errorf("run %d: %s: %s", f.FoundAfter, f.Run.Failure.Oracle, f.Run.Failure.Message)
			}
			if f.Repeats == 0 || f.Identical != f.Repeats {
				t.Errorf("%+v", f.Tally)
			}
			if len(f.Plan.Faults) != len(b.plan) {
				t.Errorf("faults %q, want %q", fault.Strings(f.Plan.Faults), b.plan)
			}
			examples.Minimal(t, f, simtest.Options{}, test)
		})
	}
}

// TestCorrectSiblings plays the plan of each bug and the tolerated ones against the correct sibling, and then searches.
func TestCorrectSiblings(t *testing.T) {
	for name, b := range bugs {
		t.Run(name, func(t *testing.T) {
			plans := [][]fault.Fault{parsed(t, b.plan)}
			for _, plan := range b.tolerated {
				plans = append(plans, parsed(t, plan))
			}
			simtest.Run(t, simtest.Seeds(*siblingRuns).First(plans...), b.start(name, true))
		})
	}
}

// parsed parses a plan.
func parsed(t *testing.T, texts []string) []fault.Fault {
	t.Helper()
	plan, err := fault.ParseAll(texts)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}
