package clonesets_test

import (
	"flag"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/examples/naiveclonesets"
	"github.com/rehearse-k8s/rehearse/sim"
	"github.com/rehearse-k8s/rehearse/test/clonesets"
)

var races = flag.Bool("clonesets.races", false, "play every race as often as it is worth, and not only for some runs")

// fewRuns is how often a race is played where there is no time for more.
const fewRuns = 6

func runsOf(r clonesets.Race) int {
	if *races {
		return r.Runs
	}
	return fewRuns
}

// TestOurRaces plays all races with our controller. In none of them it breaks a promise,
// wherever the fault meets it, and all is well within 15 s.
func TestOurRaces(t *testing.T) {
	for _, race := range clonesets.Races() {
		t.Run(race.Name, func(t *testing.T) {
			r := race.Play(t, ours, runsOf(race))
			t.Logf("%d runs, %d of them different, single faults %d of %d, %s", r.Runs, r.Distinct, r.Systematic, r.SystematicTotal, r.Elapsed)
			if r.Failure != nil {
				t.Fatal(said(r.Failure))
			}
			if *races && r.Systematic < r.SystematicTotal {
				t.Error("not every single fault was tried")
			}
		})
	}
}

func said(f *sim.Failure) string {
	return strings.Join(append([]string{f.Grade(), f.Run.Failure.Oracle, f.Run.Failure.Message}, f.Run.Faults...), "\n")
}

func race(name string) clonesets.Race {
	for _, r := range clonesets.Races() {
		if r.Name == name {
			return r
		}
	}
	panic("there is no race " + name)
}

// TestNaiveFalls: each way to be wrong is found in a race that is about it, by the promise
// that it breaks; and without the switch nothing is found there.
func TestNaiveFalls(t *testing.T) {
	const ends = "has come to its end"
	for name, c := range map[string]struct {
		wrong   naiveclonesets.Switches
		promise string
	}{
		"2057 finalizer":     {naiveclonesets.Switches{ForgetsFinalizers: true}, ends},
		"2057 one by one":    {naiveclonesets.Switches{ForgetsFinalizers: true}, ends},
		"2473":               {naiveclonesets.Switches{ForgetsPhase: true}, ends},
		"1785":               {naiveclonesets.Switches{Expects: true}, ends},
		"1785 claim":         {naiveclonesets.Switches{Expects: true}, ends},
		"1785 same name":     {naiveclonesets.Switches{Expects: true}, ends},
		"1785 same set":      {naiveclonesets.Switches{Expects: true}, ends},
		"1765":               {naiveclonesets.Switches{Expects: true}, ends},
		"two instead of one": {naiveclonesets.Switches{Stale: true, Draws: true}, "is made beyond replicas and maxSurge"},
		"two at a time":      {naiveclonesets.Switches{Stale: true}, "is taken out of service"},
		"2276":               {naiveclonesets.Switches{ImageFirst: true}, "is changed while it takes traffic"},
		"claims":             {naiveclonesets.Switches{ClaimsFirst: true}, ends},
	} {
		t.Run(name, func(t *testing.T) {
			x := race(name)
			if r := x.Play(t, naiveclonesets.Switches{}.Run, runsOf(x)); r.Failure != nil {
				t.Errorf("without the switch: %s", said(r.Failure))
			}
			r := x.Play(t, c.wrong.Run, x.Runs)
			if r.Failure == nil {
				t.Fatalf("nothing was found in %d runs", r.Runs)
			}
			t.Logf("found in run %d: %s", r.Failure.FoundAfter, said(r.Failure))
			if !strings.Contains(r.Failure.Run.Failure.Oracle, c.promise) {
				t.Errorf("it is another promise than %q", c.promise)
			}
		})
	}
}
