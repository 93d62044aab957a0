package stages_test

import (
	"flag"
	"reflect"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/test/stages"
)

// How many cases and runs a test searches.
var (
	from  = flag.Int("stages.from", 1, "the seed of the first case of the family")
	cases = flag.Int("stages.cases", 15, "how many cases of the family are searched")
	runs  = flag.Int("stages.runs", 20, "how many runs each case has")
)

// TestDraw checks that a seed always gives the same case, that its stages compile, and that a family of some
// size contains every kind of stage, rejection and act.
func TestDraw(t *testing.T) {
	seen := map[string]int{}
	for _, c := range stages.Draws(1, 200) {
		if again := stages.Draw(c.Seed); !reflect.DeepEqual(c, again) {
			t.Fatalf("drawn twice:\n%s\n%s", c, again)
		}
		if _, err := c.Set(); err != nil {
			t.Fatalf("%v\n%s", err, c)
		}
		text := c.String()
		for _, what := range []string{"name: idle-", "name: held-", "name: halves-", "name: flip-", "name: hungry-", "name: release-", "half-halves-", "jitter",
			"example.com/stage", "answered 403, 0", "answered 422, 0", "answered 422, 2", "label of", "move on of", "late patch of", "recreate of", "mover: true"} {
			if strings.Contains(text, what) {
				seen[what]++
			}
		}
	}
	for what, n := range seen {
		if n < 4 {
			t.Errorf("%s: in %d of 200 cases", what, n)
		}
	}
	if len(seen) != 17 {
		t.Errorf("seen: %v", seen)
	}
}

// TestEngine checks the stage engine with random sets of stages. A long run is `go test -run TestEngine
// -timeout 12h ./test/stages -stages.cases=500`.
func TestEngine(t *testing.T) {
	found, played := stages.Search(t, stages.Real, stages.Draws(*from, *cases), *runs)
	t.Logf("%d cases, %d runs", *cases, played)
	for _, f := range found {
		t.Errorf("%s", f)
	}
}
