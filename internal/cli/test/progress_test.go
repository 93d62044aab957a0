package test

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/scenario"
)

func TestStatusText(t *testing.T) {
	for want, s := range map[string]searchStatus{
		"a: the first run, without faults, 30s elapsed":                                            {name: "a", elapsed: 30 * time.Second},
		"a: 24 of 2,000 runs, 20 of 1,927 single faults, 1m30s elapsed, 3m30s left at most":        {name: "a", runs: 24, maxRuns: 2000, tried: 20, single: 1927, elapsed: 90 * time.Second, left: 210 * time.Second},
		"a: run 24 violates an invariant; repeating and shrinking it, 3 runs so far, 1m0s elapsed": {name: "a", runs: 26, maxRuns: 200, failing: 24, repeats: 3, elapsed: time.Minute},
	} {
		if got := s.text(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestRemaining(t *testing.T) {
	for _, tc := range []struct {
		elapsed, budget time.Duration
		runs, maxRuns   int
		want            time.Duration
	}{
		{time.Minute, time.Hour, 10, 20, time.Minute},
		{time.Minute, 90 * time.Second, 10, 200, 30 * time.Second},
		{time.Minute, time.Hour, 20, 20, 0},
		{2 * time.Minute, time.Minute, 10, 20, 0},
		{10 * time.Second, time.Hour, 0, 20, 200 * time.Second},
	} {
		if got := remaining(tc.elapsed, tc.budget, tc.runs, tc.maxRuns); got != tc.want {
			t.Errorf("%+v: %s", tc, got)
		}
	}
}

// TestProgressWithoutTerminal: where stderr is not a terminal, there is one line every 30 s and none after the end.
func TestProgressWithoutTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stderr bytes.Buffer
		c := console.New(console.Streams{Err: &stderr})
		a := &app{c}
		p := a.startProgress(&scenario.Scenario{Name: "a", Runs: 200, Budget: 5 * time.Minute})
		after := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		after(31 * time.Second)
		for n := range 10 {
			p.ran(&sim.Result{Runs: n + 1, Systematic: n, SystematicTotal: 1927}, &sim.Outcome{Run: &history.Run{}})
		}
		after(30 * time.Second)
		p.repeated(7, 0)
		p.repeated(7, 2)
		after(30 * time.Second)
		p.repeated(0, 0)
		after(30 * time.Second)
		p.clear()
		after(time.Hour)
		want := "a: the first run, without faults, 30s elapsed\na: 10 of 200 runs, 9 of 1,927 single faults, 1m0s elapsed, 4m0s left at most\n" +
			"a: run 7 violates an invariant; repeating and shrinking it, 2 runs so far, 1m30s elapsed\n" +
			"a: 10 of 200 runs, 9 of 1,927 single faults, 2m0s elapsed, 3m0s left at most\n"
		if got := stderr.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// TestNoLineInShortSearch: a search of less than 30 s prints no progress.
func TestNoLineInShortSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stderr strings.Builder
		a := &app{console.New(console.Streams{Err: &stderr})}
		p := a.startProgress(&scenario.Scenario{Name: "a", Runs: 200, Budget: 5 * time.Minute})
		<-time.After(29 * time.Second)
		p.clear()
		if got := stderr.String(); got != "" {
			t.Errorf("%q", got)
		}
	})
}
