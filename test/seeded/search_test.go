package seeded_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/simtest"
)

// easy are bugs that each search finds soon.
const easy = "alternative-name,double-count"

var (
	searchBugs  = flag.String("seeded.bugs", "", "the bugs that TestSearch searches for, separated by commas; all: all of them; empty: some that it must find")
	searchFrom  = flag.Uint64("seeded.from", 1, "the first seed of TestSearch")
	searchSeeds = flag.Uint64("seeded.seeds", 1, "the number of seeds of TestSearch")
	searchRuns  = flag.Int("seeded.search-runs", 300, "the maximum number of runs of each search of TestSearch")
)

// found is the result of one search, as TestSearch prints it on a line. The command bench search reads it.
type found struct {
	Bug  string `json:"bug"`
	Seed uint64 `json:"seed"`
	// Found: the search found the seeded bug, in run number Runs. Otherwise Runs is how many runs it played.
	Found bool `json:"found"`
	Runs  int  `json:"runs"`
	// Seconds is Runs times the mean duration of a run of this search. With real processes it is the whole duration, with the repeats of
	// the failure and with shrinking.
	Seconds float64 `json:"seconds"`
	// Faults is the number of faults of the shrunk plan.
	Faults int `json:"faults"`
	// Other is an invariant other than the stated one that a failure violated, which ended the search.
	Other string `json:"other,omitempty"`
}

// TestSearch searches for seeded bugs and prints a line for each search.
func TestSearch(t *testing.T) {
	for _, name := range selectBugs(t, "bugs", *searchBugs, easy) {
		for seed := *searchFrom; seed < *searchFrom+*searchSeeds; seed++ {
			result := search(t, name, bugs[name], simtest.Seeds(*searchRuns).Seed(seed))
			result.Seed = seed
			result.print(t)
			if *searchBugs == "" && !result.Found {
				t.Errorf("%s: not found", name)
			}
		}
	}
}

// selectBugs returns the bugs that a flag -seeded.FLAG names.
func selectBugs(t *testing.T, flag, value, byDefault string) []string {
	all := slices.Sorted(maps.Keys(bugs))
	if value == "all" {
		return all
	}
	names := strings.Split(cmp.Or(value, byDefault), ",")
	for _, name := range names {
		if !slices.Contains(all, name) {
			t.Fatalf("-seeded.%s: bug %q: want one of %s", flag, name, strings.Join(all, ", "))
		}
	}
	return names
}

// print prints the result on a line of its own.
func (f found) print(t *testing.T) {
	line, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%s\n", line)
}

// search searches for a bug once.
func search(t *testing.T, name string, b bug, o simtest.Options) found {
	r := simtest.Explore(t, o, b.start(name, false))
	result := found{Bug: name, Runs: r.Runs}
	played := r.Runs + r.Repeats
	if f := r.Failure; f != nil {
		result.Runs, result.Faults = f.FoundAfter, len(f.Plan.Faults)
		played += f.ShrinkRuns
		if result.Found = strings.HasPrefix(f.Run.Failure.Oracle, b.violates); !result.Found {
			result.Other = f.Run.Failure.Oracle
			t.Logf("%s: %s with %q", f.Run.Failure.Oracle, f.Run.Failure.Message, f.Run.Faults)
		}
	}
	result.Seconds = r.Elapsed.Seconds() * float64(result.Runs) / float64(max(played, 1))
	return result
}
