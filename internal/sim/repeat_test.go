package sim

import (
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
)

// TestMore: a failure that reproduces three times of three is repeated no more; another one up to 20 times, or
// ten times if it is frequent.
func TestMore(t *testing.T) {
	for _, c := range []struct {
		t            Tally
		before       bool
		more         int
		reproducible bool
	}{
		{Tally{}, false, 3, false},
		{Tally{Repeats: 2, Same: 2}, false, 1, true},
		{Tally{Repeats: 3, Same: 3}, false, 0, true},
		{Tally{Repeats: 3, Same: 2}, false, 7, true},
		{Tally{Repeats: 3, Same: 0}, false, 7, false},
		{Tally{Repeats: 10, Same: 10}, false, 0, true},
		{Tally{Repeats: 10, Same: 7}, false, 0, true},
		{Tally{Repeats: 10, Same: 6}, false, 10, true},
		{Tally{Repeats: 10, Same: 0}, false, 10, false},
		{Tally{Repeats: 20, Same: 7}, false, 0, true},
		{Tally{Repeats: 20, Same: 2}, false, 0, true},
		{Tally{Repeats: 20, Same: 1}, false, 0, false},
		{Tally{}, true, 3, false},
		{Tally{Repeats: 3, Same: 1}, true, 0, false},
		{Tally{Repeats: 3, Same: 2}, true, 7, true},
	} {
		if n, r := c.t.more(c.before), c.t.reproducible(); n != c.more || r != c.reproducible {
			t.Errorf("%+v, seen before %v: %d more, reproducible %v", c.t, c.before, n, r)
		}
	}
}

// TestCompare: a smaller plan is accepted if it reproduces and is not significantly worse.
func TestCompare(t *testing.T) {
	tally := func(same, repeats int) Tally { return Tally{Repeats: repeats, Same: same} }
	identical := Tally{Repeats: 3, Same: 3, Identical: 3}
	reject, accept := decision{}, decision{accept: true}
	for name, c := range map[string]struct {
		smaller, found Tally
		want           decision
	}{
		"deterministic, one run":            {tally(1, 1), identical, decision{repeats: 2}},
		"deterministic, all":                {tally(3, 3), identical, accept},
		"deterministic, passed":             {tally(0, 1), identical, reject},
		"deterministic, passed once":        {tally(2, 3), identical, reject},
		"always and always":                 {tally(3, 3), tally(3, 3), accept},
		"always and never":                  {tally(0, 3), tally(3, 3), reject},
		"always and sometimes":              {tally(2, 3), tally(3, 3), decision{repeats: 7}},
		"always and often, few repeats":     {tally(7, 10), tally(3, 3), decision{repeats: 7, found: true}},
		"always and often":                  {tally(7, 10), tally(10, 10), accept},
		"always and half of the time":       {tally(10, 20), tally(10, 10), reject},
		"sometimes and always":              {tally(3, 3), tally(7, 20), accept},
		"sometimes and never so far":        {tally(0, 3), tally(7, 20), decision{repeats: 7}},
		"sometimes and never":               {tally(0, 10), tally(7, 20), reject},
		"sometimes and as often":            {tally(7, 20), tally(7, 20), accept},
		"sometimes and a little less often": {tally(5, 20), tally(7, 20), accept},
		"sometimes and rarely":              {tally(2, 20), tally(7, 20), reject},
		"rarely and once":                   {tally(1, 20), tally(2, 20), reject},
		"rarely and rarely":                 {tally(2, 20), tally(2, 20), accept},
	} {
		if got := compare(c.smaller, c.found); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestRaises: a delay is accepted if the failure reproduces significantly more often with it.
func TestRaises(t *testing.T) {
	tally := func(same, repeats int) Tally { return Tally{Repeats: repeats, Same: same} }
	for name, c := range map[string]struct {
		delayed, found Tally
		want           decision
	}{
		"no run yet":        {tally(0, 0), tally(7, 20), decision{repeats: 3}},
		"always":            {tally(3, 3), tally(7, 20), decision{accept: true}},
		"never":             {tally(0, 3), tally(7, 20), decision{}},
		"not more often":    {tally(1, 3), tally(7, 20), decision{}},
		"maybe":             {tally(2, 3), tally(7, 20), decision{repeats: 7}},
		"often":             {tally(8, 10), tally(7, 20), decision{accept: true}},
		"a bit more often":  {tally(9, 20), tally(7, 20), decision{}},
		"far more often":    {tally(13, 20), tally(7, 20), decision{accept: true}},
		"rare, often now":   {tally(8, 20), tally(2, 20), decision{accept: true}},
		"rare, hardly more": {tally(4, 20), tally(2, 20), decision{}},
		"frequent":          {tally(3, 3), tally(7, 10), decision{repeats: 7}},
		"frequent, always":  {tally(10, 10), tally(7, 10), decision{accept: true}},
		"frequent, better":  {tally(9, 10), tally(7, 10), decision{}},
	} {
		if got := raises(c.delayed, c.found); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestNeeds: the report says which of the faults a race needs.
func TestNeeds(t *testing.T) {
	faults, err := fault.ParseAll([]string{"lag actor=a nth=1", "conflict actor=a nth=2"})
	if err != nil {
		t.Fatal(err)
	}
	plan := func(n int) Plan { return Plan{Faults: faults[:n]} }
	for want, f := range map[string]Failure{
		"":               {Plan: plan(1), Tally: Tally{Repeats: 3, Same: 3}},
		"needs no fault": {Tally: Tally{Repeats: 3, Same: 3}},
		"needs no fault: a timing race, 7 of 20 without faults":                                                    {Tally: Tally{Repeats: 20, Same: 7}},
		"needs no fault: a timing race, 7 of 20 without faults; the delay raises the rate to 3 of 3":               {Plan: plan(1), Tally: Tally{Repeats: 3, Same: 3}, Shrunk: &Shrunk{Tally: Tally{Repeats: 20, Same: 7}}},
		"less often without faults: 2 of 20":                                                                       {Plan: plan(1), Tally: Tally{Repeats: 10, Same: 10}, WithoutFaults: Tally{Repeats: 20, Same: 2}},
		"a timing race, 4 of 20 with lag actor=a nth=1; the longer or additional delay raises the rate to 8 of 10": {Plan: plan(2), Tally: Tally{Repeats: 10, Same: 8}, Shrunk: &Shrunk{Faults: faults[:1], Tally: Tally{Repeats: 20, Same: 4}}},
	} {
		if got := f.Needs(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
