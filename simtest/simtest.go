package simtest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// Run rehearses a story: it is told again and again, from an empty world, each time
// with another order of events and other faults. The test fails at the first run in
// which a promise is broken, with the reason, the shortest run that shows it, and the
// command that plays it again.
//
// The story is told on a goroutine of its own in each run, so it must not keep
// anything outside, and not call t.
func Run(t testing.TB, o Options, story func(*World)) {
	t.Helper()
	explore(t, o, story, true)
}

// Explore is Run for those who want to look at what was found: it does not fail the
// test because of a controller. It writes and reads no files.
func Explore(t testing.TB, o Options, story func(*World)) *Result {
	t.Helper()
	return explore(t, o, story, false)
}

func explore(t testing.TB, o Options, story func(*World), verdict bool) *sim.Result {
	t.Helper()
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	if story == nil {
		t.Fatal("simtest: the story is nil")
	}
	p, err := newPlayer(t, o, story)
	if err != nil {
		t.Fatal(err)
	}
	defer oneProcessor()()
	if verdict && *flagReplay != "" {
		p.replay(t, *flagReplay)
		return nil
	}
	search := sim.Options{Seed: p.config.seed, Runs: o.runs, Budget: o.budget, Level: o.level}
	if *flagSeeds > 0 {
		search.Runs = *flagSeeds
	}
	if *flagBudget > 0 {
		search.Budget = *flagBudget
		if *flagSeeds == 0 {
			search.Runs = 1 << 30
		}
	}
	if *flagVerbose {
		search.Progress = func(so *sim.Result, out *sim.Outcome) {
			t.Logf("run %d: %d steps, %s, hash %s, faults %v", so.Runs, len(out.Run.Steps), lasted(out), out.Run.Hash(), out.Run.Faults)
		}
	}
	if verdict {
		search.First = p.remembered(t)
	}
	result, err := sim.Search(t.Context(), p, search)
	if err != nil {
		t.Fatal(err)
	}
	if verdict {
		p.conclude(t, result)
	}
	return result
}

// processors is what to go back to when the last search ends.
var processors struct {
	sync.Mutex
	searches, before int
}

// oneProcessor lets the process use one processor until the returned function is
// called. One thing happens at a time in a run, so that a second one only costs the
// hand-over: with two a run takes a quarter longer.
func oneProcessor() (goBack func()) {
	p := &processors
	p.Lock()
	defer p.Unlock()
	if p.searches++; p.searches == 1 {
		p.before = runtime.GOMAXPROCS(1)
	}
	return func() {
		p.Lock()
		defer p.Unlock()
		if p.searches--; p.searches == 0 {
			runtime.GOMAXPROCS(p.before)
		}
	}
}

func lasted(out *sim.Outcome) time.Duration {
	if n := len(out.Run.Steps); n > 0 {
		return out.Run.Steps[n-1].At
	}
	return 0
}

func newPlayer(t testing.TB, o Options, story func(*World)) (*player, error) {
	s, err := theServer()
	if err != nil {
		return nil, err
	}
	if err := s.install(context.Background(), o.crds); err != nil {
		return nil, fmt.Errorf("simtest: %w", err)
	}
	return &player{t: t, server: s, config: o.settings(), story: story}, nil
}
