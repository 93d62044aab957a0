package simtest_test

import (
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// TestExploreWithoutPlace: Explore returns the patterns that match nothing, because a caller may use one list for many
// scenarios.
func TestExploreWithoutPlace(t *testing.T) {
	r := simtest.Explore(t, simtest.Seeds(5), func(w *simtest.World) {
		carefulTest(w)
		w.Faults(fault.Lag("secrets"))
	})
	if len(r.Unmatched) != 1 || r.Unmatched[0].Pattern != fault.Lag("secrets") || r.SystematicTotal != 0 || r.Runs == 0 {
		t.Errorf("%+v", r)
	}
}
