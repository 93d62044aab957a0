package simtest

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// Options configure the search of a test. The zero value is ready for use. Each method returns a
// copy with one change, so calls can be chained:
//
//	simtest.Seeds(200).Budget(10 * time.Second)
type Options struct {
	runs   int
	budget time.Duration
	seed   uint64
	level  fault.Level
	// keepGoing continues the search after a failure.
	keepGoing bool
	// oldestFirst turns schedules off.
	oldestFirst bool
	// first are the faults and schedules to try before all others.
	first  []sim.Plan
	scheme *runtime.Scheme
	crds   []*apiextensionsv1.CustomResourceDefinition
}

// Seeds returns options with a maximum number of runs, which includes those without faults. The
// default is 200. The flag -simtest.seeds overrides it.
func Seeds(n int) Options { return Options{}.Seeds(n) }

// Seeds sets the maximum number of runs.
func (o Options) Seeds(n int) Options { o.runs = n; return o }

// Budget limits the duration of the search in real time. The flag -simtest.budget overrides it.
func (o Options) Budget(d time.Duration) Options { o.budget = d; return o }

// Seed sets the seed of the first run; the default is 1.
func (o Options) Seed(n uint64) Options { o.seed = n; return o }

// Level sets the level of the faults that may be injected; the default is fault.Legal.
func (o Options) Level(l fault.Level) Options { o.level = l; return o }

// First tries these combinations of faults, each in one run, before all others: those of a known failure, for example.
// A fault as [fault.Parse] reads it from the report of a failure names its place.
func (o Options) First(combinations ...[]fault.Fault) Options {
	return o.FirstScheduled(history.Schedule{}, combinations...)
}

// FirstScheduled is like First for runs with a schedule: that of a known failure. A combination may be empty.
func (o Options) FirstScheduled(schedule history.Schedule, combinations ...[]fault.Fault) Options {
	o.first = slices.Clip(o.first)
	for _, faults := range combinations {
		o.first = append(o.first, sim.Plan{Schedule: schedule, Faults: faults})
	}
	return o
}

// OldestFirst turns schedules off: of several actions that may happen, each run takes the oldest one. Otherwise the search also
// tries runs in which random priorities choose.
func (o Options) OldestFirst() Options { o.oldestFirst = true; return o }

// KeepGoing continues the search after a failure that reproduces, and reports each different one: those that
// differ in the invariant, the object or the kind of difference. The flag -simtest.keepgoing does so too.
func (o Options) KeepGoing() Options { o.keepGoing = true; return o }

// Scheme sets the scheme with the kinds of the Go types that the test uses.
func (o Options) Scheme(s *runtime.Scheme) Options { o.scheme = s; return o }

// CRDs adds CRDs that are installed once per process, before the first run.
func (o Options) CRDs(crds ...*apiextensionsv1.CustomResourceDefinition) Options {
	o.crds = append(o.crds[:len(o.crds):len(o.crds)], crds...)
	return o
}

// check returns an error for invalid options and flags.
func (o Options) check() error {
	switch {
	case o.runs < 0:
		return fmt.Errorf("simtest: Seeds(%d): want a number from 1", o.runs)
	case o.budget < 0:
		return fmt.Errorf("simtest: Budget(%s): want a time above zero", o.budget)
	case *flagSeeds < 0:
		return fmt.Errorf("-simtest.seeds=%d: want a number from 1", *flagSeeds)
	case *flagBudget < 0:
		return fmt.Errorf("-simtest.budget=%s: want a time above zero", *flagBudget)
	case *flagProcesses < 0:
		return fmt.Errorf("-simtest.processes=%d: want a number from 1, or 0 for the number of processors", *flagProcesses)
	case *flagStuck <= 0:
		return fmt.Errorf("-simtest.stuck=%s: want a time above zero", *flagStuck)
	case slices.Contains(o.crds, nil):
		return errors.New("simtest: CRDs: one of them is nil")
	}
	if _, err := sim.ParseStrategy(*flagStrategy); err != nil {
		return fmt.Errorf("-simtest.strategy: %w", err)
	}
	return nil
}

// settings are the options with their defaults.
type settings struct {
	Options
	scheme   *runtime.Scheme
	matching map[uint64]bool // hashes of final states that match the baseline
	observed map[uint64]bool // and of those in which no controller lags behind the generation of its objects
}

func (o Options) settings() *settings {
	if o.seed == 0 {
		o.seed = 1
	}
	s := &settings{Options: o, scheme: o.scheme, matching: map[uint64]bool{}, observed: map[uint64]bool{}}
	if s.scheme == nil {
		s.scheme = scheme.Scheme
	}
	return s
}

var (
	flagSeeds     = flag.Int("simtest.seeds", 0, "the maximum number of runs of a search; 0: the number in the test's options")
	flagBudget    = flag.Duration("simtest.budget", 0, "the maximum duration of a search, such as 5m; 0: the duration in the test's options")
	flagProcesses = flag.Int("simtest.processes", 1, "the number of processes that play the runs of a search; 0: the number of processors")
	flagKeepGoing = flag.Bool("simtest.keepgoing", false, "continue a search after a failure that reproduces, and report each different one")
	flagStrict    = flag.Bool("simtest.strict", false, "fail a test if a failure was seen once, that is, if it does not reproduce")
	flagStrategy  = flag.String("simtest.strategy", "guided", "how a search chooses its runs: guided, systematic, random or schedules; all but the first exist to be compared with it")
	flagCorpus    = flag.String("simtest.corpus", "", "a directory with the plans that showed new behaviour, by test: the search starts from them and adds its own")
	flagReplay    = flag.String("simtest.replay", "", "replay the run in this file, and run no search")
	flagVerbose   = flag.Bool("simtest.v", false, "show every run, the places of faults, and the logs of the API server and of controllers")
	flagAsk       = flag.Bool("simtest.ask", false, "send every request to the API server, even if its answer in the same state is cached")
	flagStuck     = flag.Duration("simtest.stuck", 10*time.Second, "the real time after which a run that makes no progress is reported as stuck")
)
