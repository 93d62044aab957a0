package sim_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/sim"
)

func parse(t testing.TB, texts ...string) []fault.Fault {
	t.Helper()
	faults, err := fault.ParseAll(texts)
	if err != nil {
		t.Fatal(err)
	}
	return faults
}

// TestHoldOfPattern: a hold that a pattern asks for is tried as it is, also if the search has no such length.
func TestHoldOfPattern(t *testing.T) {
	for _, pace := range []struct {
		name string
		live bool
	}{{"virtual", false}, {"live", true}} {
		for pattern, want := range map[string]int{
			"lag for=4s":                     3,
			"lag for=4s object=default/p1":   1,
			"relist writes=7":                3,
			"late-request for=4s":            3,
			"late-answer for=4s actor=a":     3,
			"throttle for=4s":                3,
			"crash-before for=4s":            3,
			"crash for=4s":                   6,
			"pause for=4s":                   3,
			"finalizer for=4s":               3,
			"lag until=pods":                 3,
			"lag until=pods object=x/y":      -1,
			"pause for=4s resource=services": -1,
		} {
			r, err := sim.Search(t.Context(), &toy{}, sim.Options{Seed: 1, Runs: 20, Live: pace.live, Explicit: true, Patterns: parse(t, pattern)})
			var none *sim.NoPlaceError
			switch {
			case want < 0 && !errors.As(err, &none):
				t.Errorf("%s, %s: %v, want a NoPlaceError", pace.name, pattern, err)
			case want >= 0 && (err != nil || r.SystematicTotal != want):
				t.Errorf("%s, %s: %d places, %v, want %d", pace.name, pattern, r.SystematicTotal, err, want)
			}
		}
	}
}

// TestPatternWithoutPlace: a pattern that matches nothing is an error that says what would match.
func TestPatternWithoutPlace(t *testing.T) {
	for pattern, want := range map[string]string{
		"lag nth=9":                             `fault pattern "lag nth=9" matches nothing in the run without faults: nth=9 is too high: "lag" occurs 3 times`,
		"lag object=default/p1 nth=2":           `nth=2 is too high: "lag object=default/p1" occurs once`,
		"lag object=default/p9":                 "it has no place for object=default/p9; nearest: default/p0, default/p1, default/p2",
		"lag resource=pod":                      "it has no place for resource=pod; nearest: pods",
		"conflict actor=b":                      "it has no place for actor=b; nearest: a",
		"conflict verb=patch":                   "it has no place for verb=patch; nearest: update",
		"conflict verb=patch object=default/p9": `nearest places: "conflict actor=a verb=update resource=pods/status object=default/p0", `,
		"drop-bookmark":                         "drop-bookmark acts on watch events, and the run has none on which a later request depends",
		"evict":                                 "evict acts on objects that a client writes, and the run has none on which a later request depends",
	} {
		_, err := sim.Search(t.Context(), &toy{}, sim.Options{Seed: 1, Runs: 20, Explicit: true, Patterns: parse(t, "lag", pattern)})
		var none *sim.NoPlaceError
		if !errors.As(err, &none) || none.Pattern.String() != pattern || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", pattern, err, want)
		}
	}
	_, err := sim.Search(t.Context(), &toy{}, sim.Options{Seed: 1, Runs: 20, Explicit: true, Live: true, Patterns: parse(t, "time-travel")})
	if err == nil || !strings.Contains(err.Error(), "a real API server cannot serve an older state") {
		t.Errorf("time-travel: %v", err)
	}
}

// TestPatternExcluded: a pattern whose places are all excluded says so.
func TestPatternExcluded(t *testing.T) {
	for _, w := range []restricted{
		{toy: &toy{}, patterns: parse(t, "conflict resource=pods/status"), except: parse(t, "conflict")},
		{toy: &toy{}, patterns: parse(t, "lag"), trusted: []string{"a"}},
	} {
		_, err := sim.Search(t.Context(), w, sim.Options{Seed: 1, Runs: 5})
		if err == nil || !strings.Contains(err.Error(), "all its places are excluded: their clients are trusted, or the faults are excepted") {
			t.Errorf("%+v: %v", w, err)
		}
	}
}

// TestPatternsOfTests: one of the patterns of a test must match. The others need not, because a test may use one list
// for many scenarios; they are listed.
func TestPatternsOfTests(t *testing.T) {
	for _, tc := range []struct {
		patterns  []string
		ok        bool
		unmatched []string
	}{
		{[]string{"lag", "evict", "drop-bookmark"}, true, []string{"evict (broad)", "drop-bookmark (broad)"}},
		{[]string{"lag", "evict actor=a"}, true, []string{"evict actor=a (broad)"}},
		{[]string{"lag", "evict resource=pods"}, true, []string{"evict resource=pods"}},
		{[]string{"evict"}, false, []string{"evict (broad)"}},
		{[]string{"evict resource=pods", "drop-bookmark actor=a"}, false, []string{"evict resource=pods", "drop-bookmark actor=a (broad)"}},
		{nil, true, nil},
	} {
		w := restricted{toy: &toy{}, patterns: parse(t, tc.patterns...)}
		r, err := sim.Search(t.Context(), w, sim.Options{Seed: 1, Runs: 5})
		var none *sim.NoPlaceError
		if (err == nil) != tc.ok || err != nil && !errors.As(err, &none) {
			t.Errorf("%q: %v", tc.patterns, err)
		}
		var got []string
		for _, e := range r.Unmatched {
			text := e.Pattern.String()
			if e.Broad() {
				text += " (broad)"
			}
			got = append(got, text)
		}
		if !slices.Equal(got, tc.unmatched) {
			t.Errorf("%q: unmatched %q, want %q", tc.patterns, got, tc.unmatched)
		}
		if tc.patterns == nil && r.SystematicTotal != 0 {
			t.Errorf("a test without faults has %d places", r.SystematicTotal)
		}
	}
}

// TestNthOfPattern: the number of a pattern counts what its other fields match, which may be at several places.
func TestNthOfPattern(t *testing.T) {
	for pattern, want := range map[string][]string{
		"lag nth=3 for=4s":                    {"lag nth=3 for=4s"},
		"crash-after actor=a nth=2":           {"crash-after actor=a nth=2"},
		"crash nth=3":                         {"crash-after nth=3", "crash-before nth=3"},
		"pause nth=2":                         {"pause nth=2 for=1m0s", "pause nth=2 for=20s"},
		"throttle resource=pods/status nth=3": {"throttle resource=pods/status nth=3"},
	} {
		w := &toy{}
		r, err := sim.Search(t.Context(), w, sim.Options{Seed: 1, Runs: 3 + len(want), Explicit: true, Patterns: parse(t, pattern)})
		if err != nil || r.SystematicTotal != len(want) {
			t.Errorf("%s: %d places, %v", pattern, r.SystematicTotal, err)
			continue
		}
		var tried []string
		for _, p := range w.played[3 : 3+len(want)] {
			tried = append(tried, strings.Join(fault.Strings(p.Faults), ";"))
		}
		if slices.Sort(tried); !slices.Equal(tried, want) {
			t.Errorf("%s: tried %q, want %q", pattern, tried, want)
		}
	}
}

// TestPlaces: each single fault is listed once, as tried or not, and the counts agree with the verdict line.
func TestPlaces(t *testing.T) {
	for _, runs := range []int{1, 3, 4, 20, 500} {
		r := search(t, &toy{}, sim.Options{Seed: 1, Runs: runs})
		tried, untried := 0, 0
		seen := map[string]bool{}
		for _, p := range r.Places {
			if seen[p.String()] || len(p.Tried)+len(p.Untried) == 0 {
				t.Errorf("place %s: %+v", p, p)
			}
			seen[p.String()] = true
			tried, untried = tried+len(p.Tried), untried+len(p.Untried)
			for _, f := range slices.Concat(p.Tried, p.Untried) {
				if f.Kind != p.Kind || f.Object != p.Object || f.Resource != p.Resource || f.Verb != p.Verb || f.Actor != p.Actor {
					t.Errorf("%s is listed at %s", f, p)
				}
			}
		}
		if tried != r.Systematic || tried+untried != r.SystematicTotal || untried == 0 != (runs == 500) {
			t.Errorf("%d runs: %d tried and %d not, want %d of %d", runs, tried, untried, r.Systematic, r.SystematicTotal)
		}
	}
}

func TestListPlaces(t *testing.T) {
	faults := parse(t, "lag actor=a resource=pods nth=1", "lag actor=a resource=pods nth=1 for=2s", "conflict actor=a verb=update resource=pods object=default/p nth=1")
	places := []sim.Place{
		{Kind: fault.KindLag, Actor: "a", Resource: "pods", Tried: faults[:2], Untried: slices.Repeat(faults[1:2], 10)},
		{Kind: fault.KindConflict, Actor: "a", Verb: "update", Resource: "pods", Object: "default/p", Untried: faults[2:]},
	}
	want := "2 of 12  lag actor=a resource=pods\n 0 of 1  conflict actor=a verb=update resource=pods object=default/p\n"
	if got := sim.ListPlaces(places); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := sim.ListPlaces(nil); got != "no fault has a place in the run without faults\n" {
		t.Errorf("of no places: %q", got)
	}
}

func TestTried(t *testing.T) {
	for want, r := range map[string]sim.Result{
		"106 of 1,927 single faults, 0 pairs, 109 runs":                                                                             {Systematic: 106, SystematicTotal: 1927, Runs: 109},
		"0 of 0 single faults, 0 pairs, 1 run":                                                                                      {Runs: 1},
		"0 of 7 single faults, 0 pairs, 4 runs, 3 repeats of failures":                                                              {SystematicTotal: 7, Runs: 4, Repeats: 3},
		"5 of 9 single faults, 0 pairs, 12 schedules, 20 runs":                                                                      {Systematic: 5, SystematicTotal: 9, Schedules: 12, Runs: 20},
		"5 of 5 single faults, 1 pair, 1 larger combination, 1,000 runs":                                                            {Systematic: 5, SystematicTotal: 5, Random: 2, Pairs: 1, Larger: 1, Runs: 1000},
		"5 of 5 single faults, 12 pairs, 2 larger combinations, 3 single faults with other seeds or from earlier failures, 25 runs": {Systematic: 5, SystematicTotal: 5, Random: 17, Pairs: 12, Larger: 2, Runs: 25},
	} {
		if got := r.Tried(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 12345: "12,345", 123456: "123,456", 1234567: "1,234,567"} {
		if got := sim.Grouped(n); got != want {
			t.Errorf("Grouped(%d) = %s, want %s", n, got, want)
		}
	}
}

// TestPairsAreCounted: the counts of combinations are those of the plans that were played.
func TestPairsAreCounted(t *testing.T) {
	w := &toy{}
	r := search(t, w, sim.Options{Seed: 1, Runs: 500})
	pairs, larger := 0, 0
	for _, p := range w.played {
		switch n := len(p.Faults); {
		case n == 2:
			pairs++
		case n > 2:
			larger++
		}
	}
	if r.Pairs != pairs || r.Larger != larger || pairs == 0 || larger == 0 {
		t.Errorf("%d pairs and %d larger ones, want %d and %d", r.Pairs, r.Larger, pairs, larger)
	}
}

// TestUnseenNeedsFaults: a search that is too short for any fault does not complain that an invariant never held.
func TestUnseenNeedsFaults(t *testing.T) {
	for runs, want := range map[int]int{1: 0, 2: 0, 3: 0, 4: 1} {
		r := search(t, &toy{}, sim.Options{Seed: 1, Runs: runs, Budget: time.Hour, Now: time.Now})
		if got := r.Unseen(); len(got) != want {
			t.Errorf("%d runs: %q", runs, got)
		}
	}
	// Without any place, the runs without faults are all that there is.
	r, err := sim.Search(t.Context(), restricted{toy: &toy{}}, sim.Options{Seed: 1, Runs: 10})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Unseen(); r.SystematicTotal != 0 || len(got) != 1 {
		t.Errorf("without places: %q", got)
	}
}

// restricted is a toy whose test allows only some faults.
type restricted struct {
	*toy
	patterns []fault.Fault
	except   []fault.Fault
	trusted  []string
}

func (w restricted) Play(ctx context.Context, p sim.Plan) (*sim.Outcome, error) {
	out, err := w.toy.Play(ctx, p)
	if err == nil {
		out.Restricted, out.Patterns, out.Except, out.Trusted = true, w.patterns, w.except, w.trusted
	}
	return out, err
}
