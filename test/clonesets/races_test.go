package clonesets_test

import (
	"flag"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/examples/naiveclonesets"
	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/test/clonesets"
)

var races = flag.Bool("clonesets.races", false, "play every race as often as it is worth, and not only for some runs")

// fewRuns is how often a race is played by default.
const fewRuns = 6

func runsOf(r clonesets.Race) int {
	if *races {
		return r.Runs
	}
	return fewRuns
}

// TestOurRaces plays all races with this repository's controller. No fault in any place may violate an
// invariant, and the run must converge within 15 s.
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
	panic("unknown race " + name)
}

// atOnce plays a race with only the faults that are known to find the defect. It returns nil if they do not
// find it any more, or if the full search is requested.
func atOnce(t *testing.T, x clonesets.Race, wrong naiveclonesets.Switches, by []string) *sim.Result {
	t.Helper()
	if *races || by == nil {
		return nil
	}
	var err error
	if x.Faults, err = fault.ParseAll(by); err != nil {
		t.Fatal(err)
	}
	r := x.Play(t, wrong.Run, 5*fewRuns)
	if r.Failure == nil {
		t.Logf("the faults %q find nothing any more", by)
		return nil
	}
	if r := x.Play(t, naiveclonesets.Switches{}.Run, r.Failure.FoundAfter); r.Failure != nil {
		t.Errorf("without the switch, with the same faults: %s", said(r.Failure))
	}
	return r
}

// TestNaiveFalls checks that each defect is found in a race that is about it, by the violated invariant, and
// that without the defect nothing is found.
func TestNaiveFalls(t *testing.T) {
	const ends = "has converged, or waits"
	for name, c := range map[string]struct {
		wrong     naiveclonesets.Switches
		invariant string
		// by are the faults with which a search of the whole race has found the defect, if that took long.
		// They are tried first.
		by []string
	}{
		"2057 finalizer":     {naiveclonesets.Switches{ForgetsFinalizers: true}, ends, nil},
		"2057 one by one":    {naiveclonesets.Switches{ForgetsFinalizers: true}, ends, nil},
		"2473":               {naiveclonesets.Switches{ForgetsPhase: true}, ends, nil},
		"1785":               {naiveclonesets.Switches{Expects: true}, ends, []string{"relist actor=cloneset resource=pods object=default/web-qm9sbngk nth=1"}},
		"1785 claim":         {naiveclonesets.Switches{Expects: true}, ends, []string{"relist actor=cloneset resource=persistentvolumeclaims object=default/data-web-qm9sbngk nth=1", "delete actor=cloneset verb=create resource=persistentvolumeclaims object=default/data-web-qm9sbngk nth=1"}},
		"1785 same name":     {naiveclonesets.Switches{Expects: true}, ends, []string{"relist actor=cloneset resource=pods object=default/web-z9h9r4t6 nth=2 for=3s"}},
		"1785 same set":      {naiveclonesets.Switches{Expects: true}, ends, nil},
		"1765":               {naiveclonesets.Switches{Expects: true}, ends, nil},
		"two instead of one": {naiveclonesets.Switches{Stale: true, Draws: true}, "is created beyond replicas and maxSurge", nil},
		"two at a time":      {naiveclonesets.Switches{Stale: true}, "is taken out of service", []string{"relist actor=cloneset resource=pods object=default/web-z9h9r4t6 nth=6"}},
		"2276":               {naiveclonesets.Switches{ImageFirst: true}, "is changed while it takes traffic", nil},
		"claims":             {naiveclonesets.Switches{ClaimsFirst: true}, ends, nil},
	} {
		t.Run(name, func(t *testing.T) {
			x := race(name)
			if r := x.Play(t, naiveclonesets.Switches{}.Run, runsOf(x)); r.Failure != nil {
				t.Errorf("without the switch: %s", said(r.Failure))
			}
			r := atOnce(t, x, c.wrong, c.by)
			if r == nil {
				r = x.Play(t, c.wrong.Run, x.Runs)
			}
			if r.Failure == nil {
				t.Fatalf("nothing was found in %d runs", r.Runs)
			}
			t.Logf("found in run %d: %s", r.Failure.FoundAfter, said(r.Failure))
			if !strings.Contains(r.Failure.Run.Failure.Oracle, c.invariant) {
				t.Errorf("the violated invariant is not %q", c.invariant)
			}
		})
	}
}
