package simtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// Run calls the test function once per run, each time in an empty World and with another order of
// events and other faults. Run repeats a run that violates an invariant. It fails t at the first failure
// that reproduces, and reports the cause, the shrunk run and the command that replays it; it logs one that
// does not.
//
// In each run the function has its own goroutine. It must not change variables outside of it, and
// must not call t.
func Run(t testing.TB, o Options, test func(*World)) {
	t.Helper()
	explore(t, o, test, true)
}

// Explore searches as Run does and returns what it found. It does not fail t because of a
// controller, and it neither reads nor writes files.
func Explore(t testing.TB, o Options, test func(*World)) *Result {
	t.Helper()
	return explore(t, o, test, false)
}

func explore(t testing.TB, o Options, test func(*World), verdict bool) *sim.Result {
	t.Helper()
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	if test == nil {
		t.Fatal("simtest: the test function is nil")
	}
	p, err := newPlayer(t, o, test)
	if err != nil {
		t.Fatal(err)
	}
	defer oneProcessor()()
	if verdict && *flagReplay != "" {
		p.replay(t, *flagReplay)
		return nil
	}
	search := sim.Options{Seed: p.config.seed, Runs: o.runs, Budget: o.budget, Now: time.Now, Level: o.level, KeepGoing: o.keepGoing || *flagKeepGoing}
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
			t.Logf("run %d: %d steps, %s, hash %s, faults %v", so.Runs, len(out.Run.Steps), duration(out), out.Run.Hash(), out.Run.Faults)
		}
	}
	if verdict {
		search.First = p.storedPlans(t)
	}
	result, err := sim.Search(t.Context(), p, search)
	var none *sim.NoPlaceError
	if err != nil && (verdict || !errors.As(err, &none)) { // a caller of Explore finds it in Result.Unmatched
		t.Fatal(err)
	}
	if verdict {
		p.conclude(t, result)
	}
	return result
}

// processors counts the concurrent searches, and holds the GOMAXPROCS that the last one restores.
var processors struct {
	sync.Mutex
	searches, before int
}

// oneProcessor sets GOMAXPROCS to 1 until the returned function is called. A run executes one
// goroutine at a time, so a second processor only adds the cost of moving work between threads:
// with two, a run takes a quarter longer.
func oneProcessor() (restore func()) {
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

func duration(out *sim.Outcome) time.Duration {
	if n := len(out.Run.Steps); n > 0 {
		return out.Run.Steps[n-1].At
	}
	return 0
}

func newPlayer(t testing.TB, o Options, test func(*World)) (*player, error) {
	s, err := theServer()
	if err != nil {
		return nil, err
	}
	if err := s.install(context.Background(), o.crds); err != nil {
		return nil, fmt.Errorf("simtest: %w", err)
	}
	return &player{t: t, server: s, config: o.settings(), test: test}, nil
}
