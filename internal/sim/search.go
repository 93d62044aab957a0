package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// Options say how far a search goes.
type Options struct {
	// Seed of the first run; the others derive theirs from it.
	Seed uint64
	// Runs is the most runs, those without faults included. 0: 200.
	Runs int
	// Budget is the most time of the machine's clock; 0: no limit.
	Budget time.Duration
	// Level up to which faults are tried, unless Patterns say more exactly.
	Level fault.Level
	// Patterns restrict the faults; nil: all of the level.
	Patterns []fault.Fault
	// First are plans to try before all others: failures of earlier times.
	First []Plan
	// Parallel is how many runs are played at the same time (1). The world must allow it.
	Parallel int
	// Live says that the world is one of real processes: things are held back for short
	// times only, and no two runs are expected to be the same step by step.
	Live bool
	// Progress is told of every run, of one at a time; nil: nobody is.
	Progress func(so *Result, last *Outcome)
}

// Result is what a search found.
type Result struct {
	// Runs is how many runs there were, Distinct how many went different ways.
	Runs, Distinct int
	// Systematic of SystematicTotal single faults at the places of the run without
	// faults were tried; Random are the runs beyond, with several faults.
	Systematic, SystematicTotal, Random int
	// Elapsed is by the machine's clock.
	Elapsed time.Duration
	// Failure is what was found; nil if everything held.
	Failure *Failure
	// Seen are the things that should happen sometimes, and whether they did in some
	// run.
	Seen map[string]bool
	// Baseline is the first run, without faults.
	Baseline *history.Run
	// Drift is set when the first run, played again after all others, went another way.
	Drift *Drift
	// Reported is the number of runs with reports, and Report the first one.
	Reported int
	Report   *Report
	// Stopped says why the search ended before its end; empty otherwise.
	Stopped string
}

// Drift is the difference between the first run and the same plan after many others.
type Drift struct {
	// Step is the first that differed.
	Step int
	// Same says that a dozen repeats all went the same way, which is not the first
	// run's: that is hardly an accident, but something that the process has kept from
	// earlier runs.
	Same bool
}

// Report is something worth telling that broke no promise.
type Report struct {
	// Text says it; Run is the number of the run, from 1.
	Text string
	Run  int
	Plan Plan
}

// Unseen are the things that should happen sometimes and never did, by name.
func (r *Result) Unseen() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(r.Seen)) {
		if !r.Seen[name] {
			names = append(names, name)
		}
	}
	return names
}

// Failure is a run in which a promise was broken, made small.
type Failure struct {
	Plan Plan
	Run  *history.Run
	// FoundAfter is how many runs it took to find it.
	FoundAfter int
	// FoundFaults and FoundSteps are its size when it was found.
	FoundFaults, FoundSteps int
	// Same and Identical are how many of three repeats of the found run broke the
	// same promise, and took the same steps.
	Same, Identical int
	// ShrinkRuns is how many runs it took to make it small.
	ShrinkRuns int
	// Live says that the runs are by the machine's clock: no two are identical.
	Live bool
	// Nearest is the most similar run in which everything held; nil if none is known.
	Nearest *history.Run
}

// Grade says how reliably the failure comes again.
func (f *Failure) Grade() string {
	if f.ShrinkRuns == 0 && f.Same == 0 && f.Nearest == nil {
		return "not repeated"
	}
	if f.Live {
		return fmt.Sprintf("reproduced %d of %d", f.Same, repeats)
	}
	if f.Identical == repeats {
		return fmt.Sprintf("%d/%d identical", f.Identical, repeats)
	}
	return fmt.Sprintf("%d/%d the same failure, %d/%d identical", f.Same, repeats, f.Identical, repeats)
}

const (
	defaultRuns = 200
	baselines   = 3
	repeats     = 3
)

// search is one search under way.
type search struct {
	world   World
	options Options
	pace    Pace
	until   time.Time

	// What follows is for one goroutine at a time, which the runs of a search that plays
	// several at once take turns to be.
	mu     sync.Mutex
	result *Result
	begun  int      // runs, also those that are under way
	found  *Outcome // in which a promise was broken
	expect *Expectation
	exempt map[string]bool
	hashes map[history.Hash]bool
	tried  map[string]bool
	single map[fault.Fault]bool // the faults of the systematic part that were not tried yet
	corpus []*Outcome           // runs that went a way of their own and held
}

// Search plays a world again and again: first without faults, then with each fault
// that could matter at each place of that run, then with several at once. It stops
// at the first failure, confirms it, and makes it small. An error is about the
// world, not about what it rehearses.
func Search(ctx context.Context, world World, o Options) (*Result, error) {
	if o.Runs <= 0 {
		o.Runs = defaultRuns
	}
	s := &search{world: world, options: o, pace: Virtual, result: &Result{Seen: map[string]bool{}}, hashes: map[history.Hash]bool{}, tried: map[string]bool{}, single: map[fault.Fault]bool{}}
	if o.Live {
		s.pace = Live
	}
	began := time.Now()
	if o.Budget > 0 {
		s.until = began.Add(o.Budget)
	}
	err := s.search(ctx)
	if errors.Is(err, errStop) {
		err = nil
	}
	if err == nil && s.found != nil {
		s.result.Failure, err = s.small(ctx, s.found)
	}
	if err == nil && ctx.Err() == nil && s.found == nil && s.result.Runs > 1 && !o.Live {
		err = s.drift(ctx)
	}
	s.result.Elapsed = time.Since(began)
	return s.result, err
}

// driftRepeats make a coin that falls on one side by chance an unlikely thing.
const driftRepeats = 12

// drift plays the first run again, to see whether the process has kept something from
// the others.
func (s *search) drift(ctx context.Context) error {
	var other *history.Run
	for range driftRepeats {
		out, err := s.world.Play(ctx, Plan{Seed: baselineSeed(s.options.Seed, 0), Learn: true})
		if err != nil {
			return err
		}
		step, diverged := history.Diverged(s.result.Baseline, out.Run)
		switch {
		case !diverged:
			if other != nil {
				s.result.Drift.Same = false
			}
			return nil
		case other == nil:
			other = out.Run
			s.result.Drift = &Drift{Step: step, Same: true}
		case out.Run.Hash() != other.Hash():
			s.result.Drift.Same = false
			return nil
		}
	}
	return nil
}

// errStop ends a search that has a result.
var errStop = errors.New("sim: stop")

func (s *search) search(ctx context.Context) error {
	first, err := s.withoutFaults(ctx)
	if err != nil {
		return err
	}
	patterns := s.options.Patterns
	switch {
	case first.Restricted:
		patterns = first.Patterns
	case patterns == nil:
		patterns = fault.Any(s.options.Level)
	}
	single := Candidates(first.Run, patterns, s.pace)
	s.result.SystematicTotal = len(single)
	for _, f := range single {
		s.single[f] = true
	}
	return s.tryAll(ctx, s.plans(single, patterns))
}

// plans are those to be tried: failures of earlier times, each fault alone, then several.
// It is asked for one at a time, and so may look at what came of those before.
func (s *search) plans(single, patterns []fault.Fault) iter.Seq[Plan] {
	return func(yield func(Plan) bool) {
		for _, p := range s.options.First {
			if !yield(p) {
				return
			}
		}
		for _, f := range single {
			p := Plan{Seed: s.options.Seed, Faults: []fault.Fault{f}}
			// As a failure of earlier times it may have been tried.
			if !s.tried[identity(p)] && !yield(p) {
				return
			}
		}
		for n := 0; len(single) > 0; n++ {
			p := s.several(n, patterns)
			if s.tried[identity(p)] {
				if n > redraws && n > 4*s.result.Random {
					return // hardly anything new is left
				}
				continue
			}
			if !yield(p) {
				return
			}
		}
	}
}

// redraws is how many random plans may have been tried before, in a small space,
// until the search gives up.
const redraws = 1000

// identity is the same for plans that are alike.
func identity(p Plan) string {
	texts := fault.Strings(p.Faults)
	slices.Sort(texts)
	return strconv.FormatUint(p.Seed, 10) + " " + strings.Join(texts, ";")
}

// withoutFaults plays the runs from which the rest is learned.
func (s *search) withoutFaults(ctx context.Context) (*Outcome, error) {
	var first *Outcome
	var states []State
	for n := range baselines {
		out, err := s.try(ctx, Plan{Seed: baselineSeed(s.options.Seed, n), Learn: true})
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = out
			s.result.Baseline = out.Run
		}
		states = s.learn(states, out)
	}
	s.expect = Learn(states)
	return first, nil
}

// learn takes in what a run without faults shows.
func (s *search) learn(states []State, out *Outcome) []State {
	for _, name := range out.Exempt {
		if s.exempt == nil {
			s.exempt = map[string]bool{}
		}
		s.exempt[name] = true
	}
	if out.State == nil {
		return states
	}
	return append(states, out.State)
}

// try plays one plan. The error is errStop when the search is over.
func (s *search) try(ctx context.Context, p Plan) (*Outcome, error) {
	if err := s.admit(ctx, p); err != nil {
		return nil, err
	}
	out, err := s.play(ctx, p)
	if err != nil {
		return nil, err
	}
	return out, s.account(ctx, out)
}

// tryAll tries plans, several at a time if the options say so, until the search is over.
func (s *search) tryAll(ctx context.Context, plans iter.Seq[Plan]) error {
	next, stop := iter.Pull(plans)
	defer stop()
	var workers errgroup.Group
	over := false // guarded by mu
	draw := func() (Plan, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if over {
			return Plan{}, errStop
		}
		p, ok := next()
		if !ok {
			return p, errStop
		}
		return p, s.admit(ctx, p)
	}
	for range max(1, s.options.Parallel) {
		workers.Go(func() error {
			for {
				p, err := draw()
				if err != nil {
					return err
				}
				out, err := s.play(ctx, p)
				s.mu.Lock()
				if err == nil && !over { // what comes after the end is not looked at
					err = s.account(ctx, out)
				}
				over = over || err != nil
				s.mu.Unlock()
				if err != nil {
					return err
				}
			}
		})
	}
	return workers.Wait()
}

// admit says whether a plan may be played yet.
func (s *search) admit(ctx context.Context, p Plan) error {
	switch {
	case ctx.Err() != nil:
		s.result.Stopped = "interrupted"
		return errStop
	case s.begun >= s.options.Runs:
		return errStop
	case !s.until.IsZero() && time.Now().After(s.until):
		s.result.Stopped = fmt.Sprintf("its budget of %s ran out", s.options.Budget)
		return errStop
	}
	s.begun++
	s.tried[identity(p)] = true
	return nil
}

// account takes in what came of a run.
func (s *search) account(ctx context.Context, out *Outcome) error {
	if ctx.Err() != nil && s.options.Live {
		s.result.Stopped = "interrupted" // the run was broken off and says nothing
		return errStop
	}
	s.result.Runs++
	switch faults := out.Plan.Faults; {
	case len(faults) == 1 && s.single[faults[0]]:
		delete(s.single, faults[0]) // with another seed it is one of the others
		s.result.Systematic++
	case len(faults) > 0:
		s.result.Random++
	}
	for name, seen := range out.Seen {
		s.result.Seen[name] = s.result.Seen[name] || seen
	}
	if len(out.Reports) > 0 {
		s.result.Reported++
		if s.result.Report == nil {
			s.result.Report = &Report{Text: out.Reports[0], Run: s.result.Runs, Plan: out.Plan}
		}
	}
	if s.options.Progress != nil {
		s.options.Progress(s.result, out)
	}
	if out.Run.Inconclusive != "" {
		s.result.Stopped = out.Run.Inconclusive
		return errStop
	}
	if h := out.Run.Hash(); !s.hashes[h] {
		s.hashes[h] = true
		s.result.Distinct++
		if out.Run.Failure == nil {
			s.remember(out)
		}
	}
	if out.Run.Failure != nil {
		s.found = out
		return errStop
	}
	return nil
}

// maxCorpus bounds the runs from which further ones are made.
const maxCorpus = 256

// remember keeps a run that held; when there are enough, in the place of another one.
func (s *search) remember(out *Outcome) {
	if len(s.corpus) < maxCorpus {
		s.corpus = append(s.corpus, out)
		return
	}
	s.corpus[fault.Pick(maxCorpus, uint64(out.Run.Hash()), "corpus")] = out
}

func (s *search) play(ctx context.Context, p Plan) (*Outcome, error) {
	if s.expect != nil {
		p.Exempt = s.exempt
		if comparable(p.Faults) {
			p.Expect = s.expect.Fits
		}
	}
	out, err := s.world.Play(ctx, p)
	if err != nil {
		return nil, err
	}
	out.Plan = p
	return out, nil
}

// comparable tells whether a run with these faults should end as one without. What
// somebody else deletes may rightly leave a mark: a Job counts the pod as failed.
func comparable(faults []fault.Fault) bool {
	return !slices.ContainsFunc(faults, func(f fault.Fault) bool {
		return f.Kind == fault.KindDelete || f.Kind == fault.KindEvict
	})
}

// several draws the nth plan with more than one fault: a run that went a way of its
// own, and one fault more at a place of that run.
func (s *search) several(n int, patterns []fault.Fault) Plan {
	draw := func(of int, what string) int { return fault.Pick(of, s.options.Seed, "several", strconv.Itoa(n), what) }
	base := s.corpus[draw(len(s.corpus), "base")]
	p := Plan{Seed: s.options.Seed + uint64(draw(4, "seed")), Faults: slices.Clone(base.Plan.Faults)}
	if len(p.Faults) >= maxFaults {
		p.Faults = slices.Delete(p.Faults, 0, 1)
	}
	if base.candidates == nil {
		base.candidates = Candidates(base.Run, patterns, s.pace)
	}
	more := base.candidates
	if len(more) == 0 {
		return p
	}
	for range 1 + draw(2, "more") {
		f := more[draw(len(more), "fault"+strconv.Itoa(len(p.Faults)))]
		if !slices.Contains(p.Faults, f) {
			p.Faults = append(p.Faults, f)
		}
	}
	return p
}

// maxFaults is the most faults that a random run has.
const maxFaults = 5
