package simtest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
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
	key := ""
	if _, ok := t.(*testing.T); ok {
		key = searchKey(t)
	}
	if verdict && worker != nil && key != worker.search {
		return nil // the parent plays it
	}
	p, err := newPlayer(t, o, test)
	if err != nil {
		t.Fatal(err)
	}
	defer oneProcessor()()
	if worker != nil && key == worker.search {
		worker.serve(t, p)
	}
	if verdict && *flagReplay != "" {
		p.replay(t, *flagReplay)
		return nil
	}
	search := sim.Options{Seed: p.config.seed, Runs: o.runs, Budget: o.budget, Now: time.Now, Level: o.level, OldestFirst: o.oldestFirst, KeepGoing: o.keepGoing || *flagKeepGoing}
	search.Strategy, _ = sim.ParseStrategy(*flagStrategy) // check has reported errors
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
			t.Logf("run %d: %d steps, %s, hash %s, schedule %+v, faults %v", so.Runs, len(out.Run.Steps), duration(out), out.Run.Hash(), out.Run.Schedule, out.Run.Faults)
		}
	}
	for _, plan := range o.first {
		plan.Seed = search.Seed
		search.First = append(search.First, plan)
	}
	if verdict {
		search.First = append(search.First, p.storedPlans(t)...)
	}
	corpus := filepath.Join(*flagCorpus, filepath.Base(p.directory())+".jsonl")
	if *flagCorpus != "" {
		if search.Corpus, err = sim.LoadCorpus(corpus); err != nil {
			t.Fatalf("-simtest.corpus: %v", err)
		}
	}
	workers, err := startWorkers(t, workerCount(t), key)
	if err != nil {
		t.Fatal(err)
	}
	defer workers.end()
	search.Others = workers.worlds()
	result, err := sim.Search(t.Context(), p, search)
	workers.end()
	err = workers.report(t, err)
	if *flagCorpus != "" && err == nil {
		if err := sim.SaveCorpus(corpus, result.Corpus, search.Corpus); err != nil {
			t.Errorf("-simtest.corpus: %v", err)
		}
	}
	var none *sim.NoPlaceError
	if err != nil && (verdict || !errors.As(err, &none)) { // a caller of Explore finds it in Result.Unmatched
		t.Fatal(err)
	}
	if verdict {
		p.conclude(t, result)
		if text := workers.String(); text != "" {
			t.Log(text)
		}
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
