package clonesets_test

import (
	"flag"
	"testing"

	"github.com/rehearse-k8s/rehearse/test/clonesets"
)

// How much of the family a test searches.
var (
	from  = flag.Int("clonesets.from", 1, "the seed of the first case of the family")
	cases = flag.Int("clonesets.cases", 8, "how many cases of the family are searched")
	runs  = flag.Int("clonesets.runs", 40, "how many runs each case has")
)

// TestOurFamily searches CloneSets of the family under all legal faults; two instances at
// once apart, which leader election is there to prevent.
func TestOurFamily(t *testing.T) {
	found, played := clonesets.Rehearse(t, ours, clonesets.Draws(*from, *cases), *runs)
	t.Logf("%d runs of %d cases", played, *cases)
	for _, f := range found {
		t.Error(f)
	}
}
