package stages_test

import (
	"testing"

	"github.com/rehearse-k8s/rehearse/examples/naivestages"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/stage"
	"github.com/rehearse-k8s/rehearse/test/stages"
)

// TestNaive checks that every naive engine fails in some random set of stages.
func TestNaive(t *testing.T) {
	for name, flaw := range map[string]naivestages.Flaw{
		"lost": naivestages.Lost, "stale": naivestages.Stale, "phantom": naivestages.Phantom, "restarted": naivestages.Restarted,
		"unnamed": naivestages.Unnamed, "forgotten": naivestages.Forgotten, "dropped": naivestages.Dropped, "displacing": naivestages.Displacing,
	} {
		naive := func(set *stage.Set) simtest.Constructor { return naivestages.New(set, flaw) }
		oracles := map[string]int{}
		found, played := stages.Search(quiet{t}, naive, stages.Draws(1, 12), 10)
		for _, f := range found {
			oracles[f.Result.Failure.Run.Failure.Oracle]++
		}
		t.Logf("%s: %d of 12 cases failed in %d runs: %v", name, len(found), played, oracles)
		if len(found) < 2 {
			t.Errorf("%s: only %d of 12 cases failed", name, len(found))
		}
	}
}

// quiet is a test that does not log, because many failures are found.
type quiet struct{ testing.TB }

func (quiet) Log(...any) {}
