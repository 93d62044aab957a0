package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/coverage"
	"github.com/rehearse-k8s/rehearse/internal/inject"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// Options limit a search.
type Options struct {
	// Seed of the first run; the others derive theirs from it.
	Seed uint64
	// Runs limits the number of runs, including those without faults. 0: 200.
	Runs int
	// Budget limits the time of the search; 0: no limit. It requires Now.
	Budget time.Duration
	// Now is the clock for Budget and Result.Elapsed. Without it, Elapsed stays 0.
	Now func() time.Time
	// Level is the highest level of faults to try, unless Patterns is set.
	Level fault.Level
	// Patterns restrict the faults; nil: all faults of the level.
	Patterns []fault.Fault
	// Explicit: each of Patterns must match a place of the run without faults. Otherwise one of them must, as of
	// those of a test (Outcome.Patterns). If none does, Search returns a *NoPlaceError.
	Explicit bool
	// OldestFirst turns schedules off: of several actions, the oldest is next in each run.
	OldestFirst bool
	// First are plans to try before all others: earlier failures.
	First []Plan
	// Corpus are plans of an earlier search that showed new behaviour (Result.Corpus): the search starts from them.
	Corpus []Plan
	// Parallel is how many runs are played at the same time (1). The world must allow it.
	Parallel int
	// Others are further worlds, each of which has the same runs as the first: worlds of other processes (Remote). The search tries its plans on all of
	// them, and plays everything else (the runs of the baseline, repeats and shrinking) on the first. A world that has a method
	// Ready gets its first plan when that channel is closed. Parallel is then ignored.
	Others []World
	// Live: the world runs real processes. Faults are short, and no two runs are expected to have the same
	// steps.
	Live bool
	// Strategy is how plans are chosen.
	Strategy Strategy
	// KeepGoing continues the search after a failure that reproduces.
	KeepGoing bool
	// Compare makes Replay compare also a run without faults with other runs without faults: the failure is a
	// difference from them.
	Compare bool
	// Progress, if set, is called after each run, never concurrently. It may complete the header of the run.
	Progress func(so *Result, last *Outcome)
	// Repeats, if set, is called when the search begins to repeat and shrink the failure that it found in a run, after each few of
	// these repeats, and with run 0 when it continues. run is how many runs there were when the failing one ended, which Result.Runs may
	// exceed; repeats is the number of repeats so far. It is never called concurrently with itself or Progress.
	Repeats func(run, repeats int)
}

// Result is the result of a search.
type Result struct {
	// Runs is how many runs were played, Distinct how many of them had different signatures (history.Run.Signature): in the
	// others, no actor observed or did anything new.
	Runs, Distinct int
	// Systematic of SystematicTotal single faults at the places of the run without faults were
	// tried; Random is the number of further runs, with several faults.
	Systematic, SystematicTotal, Random int
	// Pairs of Random had two faults, and Larger had more.
	Pairs, Larger int
	// NotApplied is the number of runs in which a fault of the plan met no request and no event, or could not create an object
	// again. They count neither as Systematic nor as Random.
	NotApplied int
	// NoLongerApply are the kept plans with such a fault: the controller does not do any more what the fault acts on.
	NoLongerApply []Plan
	// Redundant is the number of single faults that were not tried, because they hold something for a duration between those of two
	// faults that made no difference.
	Redundant int
	// Schedules is how many runs, with or without faults, had a schedule.
	Schedules int
	// Places are where the single faults act, with those that were tried and those that were not.
	Places []Place
	// Coverage says, for each kind of write of the controllers, under which circumstances it was decided and sent.
	Coverage []coverage.Row
	// Corpus are the plans that showed new behaviour, from which a later search can start.
	Corpus []Plan
	// Unmatched are the patterns of the test that match no place.
	Unmatched []*NoPlaceError
	// Repeats is the number of further runs, which repeated failures. Options.Runs limits both together.
	Repeats int
	// Elapsed is the duration on the machine's clock.
	Elapsed time.Duration
	// Failure is the first of Failures; nil if there is none.
	Failure *Failure
	// Failures are the failures that reproduce, and that could not be repeated: one for each invariant, object
	// and kind of difference. There are several only with Options.KeepGoing.
	Failures []*Failure
	// SeenOnce are the failures that do not reproduce, also one of each kind.
	SeenOnce []*Failure
	// Seen maps the names of the invariants that must hold sometimes to whether they held in some run.
	Seen map[string]bool
	// NotCompared are the parts of final states that are not compared, because they differ between the runs without faults
	// or change periodically: "pods status.hostIP".
	NotCompared []string
	// Baseline is the first run, without faults.
	Baseline *history.Run
	// Drift is set if the first run, repeated after all others, had other steps.
	Drift *Drift
	// Reported is the number of runs with reports, and Report the first one.
	Reported int
	Report   *Report
	// Stopped says why the search stopped early; empty otherwise.
	Stopped string
}

// Drift is the difference between the first run and its repetition after many others.
type Drift struct {
	// Step is the first step that differed.
	Step int
	// Same: all repeats (driftRepeats) had the same steps, and these differ from the first run. The process probably
	// keeps state from earlier runs.
	Same bool
}

// Report is an observation that violated no invariant.
type Report struct {
	// Text describes it; Run is the number of the run, from 1.
	Text string
	Run  int
	Plan Plan
}

// Unseen returns the names of the invariants that must hold sometimes and never did. It returns none if no
// fault was tried because the search was too short: they usually hold only under faults.
func (r *Result) Unseen() (names []string) {
	if r.Systematic+r.Random == 0 && (r.SystematicTotal > 0 || r.Runs < baselines) {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(r.Seen)) {
		if !r.Seen[name] {
			names = append(names, name)
		}
	}
	return names
}

const (
	defaultRuns = 200
	baselines   = 3
)

// search is the state of one search.
type search struct {
	world   World
	options Options
	pace    Pace
	until   time.Time

	// The fields below are guarded by mu while several runs are played at once.
	mu         sync.Mutex
	result     *Result
	begun      int         // runs, including those in progress, and repeats
	failed     []failedRun // runs that failed and are not judged yet
	judged     judged      // the one that is repeated now
	baseline   *verdict.Baseline
	exempt     map[string]bool
	states     []verdict.State // of runs without faults, at their ends and later
	observed   bool            // whether a run without faults was observed after its end
	endsVary   bool
	periodic   []verdict.Periodic
	except     []fault.Fault // never tried
	trusted    []string      // actors that get no faults
	signatures map[history.Hash]bool
	tried      map[string]bool
	single     map[fault.Fault]bool // the faults of the systematic part that were not tried yet
	// patterns are the faults that the search may try, and singles the single ones at the places of the
	// first run.
	patterns, singles []fault.Fault
	guide             *guide                // nil until the first run
	corpus            []*Outcome            // passing runs with different behaviour, for comparison with failures
	cells             map[cell]bool         // what the runs have covered
	choices           int                   // of the first run: Outcome.Choices
	known             map[string][]*Failure // the failures so far, by verdict.FailureKey
	edited            map[string]bool       // the objects that the user changes after their creation (verdict.EditedID)
	combines          map[together]bool     // the results of haveEffect
	expects           *expectation          // what runs are compared with; nil until the baseline is known
	free              chan World            // worlds that can play a plan, with Options.Others
}

// Search plays a world many times: first without faults, then with each single fault that can
// matter at each place of that run, then with several at once. It repeats a run that failed. It stops at the
// first failure that reproduces, and shrinks it; one that does not is listed. An error is about the world, not about the controllers under test.
func Search(ctx context.Context, world World, o Options) (*Result, error) {
	if o.Runs <= 0 {
		o.Runs = defaultRuns
	}
	s := &search{world: world, options: o, pace: Virtual, result: &Result{Seen: map[string]bool{}}, signatures: map[history.Hash]bool{}, cells: map[cell]bool{}, tried: map[string]bool{}, single: map[fault.Fault]bool{}, known: map[string][]*Failure{}}
	if o.Live {
		s.pace = Live
	}
	if o.Now == nil && o.Budget > 0 {
		return nil, errors.New("sim: Options.Budget requires Options.Now")
	}
	var began time.Time
	if o.Now != nil {
		began = o.Now()
	}
	if o.Budget > 0 {
		s.until = began.Add(o.Budget)
	}
	searching, stop := context.WithCancel(ctx)
	s.openSlots(searching)
	err := s.search(ctx)
	stop()
	if errors.Is(err, errStop) {
		err = nil
	}
	if err == nil && ctx.Err() == nil && s.result.Failure == nil && s.result.Runs > 1 && !o.Live {
		err = s.drift(ctx)
	}
	if s.guide != nil {
		s.result.Places = placesOf(s.singles, s.single, s.guide.redundant)
		s.result.Redundant = len(s.guide.redundant)
	}
	s.result.Coverage, s.result.Corpus = s.coverage(), s.corpusPlans()
	if o.Now != nil {
		s.result.Elapsed = o.Now().Sub(began)
	}
	return s.result, err
}

// driftRepeats is large enough that a random choice rarely repeats each time. A range over a Go map of two keys begins with
// the second key in one of eight runs; if the first run was such a one, 64 others all differ from it in one of 5,000 searches.
const driftRepeats = 64

// drift plays the first run again, to find out whether the process keeps state from other runs.
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

// errStop ends a search that has a result. errFailed interrupts it until the runs that failed are judged.
var (
	errStop   = errors.New("sim: stop")
	errFailed = errors.New("sim: a run failed")
)

func (s *search) search(ctx context.Context) error {
	if err := s.withoutFaults(ctx); err != nil {
		return err
	}
	if s.options.Strategy != Guided {
		return s.tryAll(ctx, s.unguided())
	}
	return s.tryAll(ctx, s.withSchedules(s.plans()))
}

// findPlaces sets the single faults to try from the first run without faults.
func (s *search) findPlaces(first *Outcome) error {
	s.patterns = s.options.Patterns
	switch {
	case first.Restricted:
		s.patterns = first.Patterns
	case s.patterns == nil:
		s.patterns = append(fault.Any(s.options.Level), first.Overlapping...)
	}
	s.except, s.trusted = first.Except, first.Trusted
	all := s.ranked(first.Run, nil)
	if s.options.Strategy == Systematic {
		slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Or(a.kind-b.kind, a.step-b.step) })
	}
	s.guide = newGuide(all, first.Run.Signature())
	s.addBase(first, 0)
	for _, f := range all {
		s.singles = append(s.singles, f.Fault)
		s.single[f.Fault] = true
	}
	s.result.SystematicTotal = len(s.singles)
	if !s.options.Explicit && !first.Restricted {
		return nil
	}
	s.result.Unmatched = unmatched(first.Run, s.patterns, s.singles, s.pace)
	if len(s.result.Unmatched) > 0 && (s.options.Explicit || len(s.singles) == 0) {
		return s.result.Unmatched[0]
	}
	return nil
}

// plans yields the plans to try: earlier failures, then what the guide chooses. It is read one plan at a time, so later
// plans can depend on the outcomes of earlier ones.
func (s *search) plans() iter.Seq[Plan] {
	return func(yield func(Plan) bool) {
		for _, p := range s.options.First {
			if slices.ContainsFunc(p.Faults, s.isExcluded) {
				continue
			}
			p.Kept = true
			if !yield(p) {
				return
			}
		}
		if !s.ofCorpus(yield) {
			return
		}
		for {
			p, ok := s.nextPlan()
			if !ok || !yield(p) {
				return
			}
		}
	}
}

// nextPlan returns the next plan with faults; ok is false if few new ones are left.
func (s *search) nextPlan() (Plan, bool) {
	if len(s.singles) == 0 {
		return Plan{}, false
	}
	for range redraws {
		p := s.draw()
		if len(p.Faults) == 0 || p.extends != nil && len(p.Faults) < 2 || s.tried[identity(p)] { // it may have been tried as an earlier failure
			continue
		}
		if p.extends != nil {
			p.extends.runs++
		}
		return p, true
	}
	return Plan{}, false
}

// draw chooses the next single fault or the cheapest extension, whichever costs less. Some turns are for a random combination, and some for a single
// fault in any case: where no two runs are the same, there is no end of new situations.
func (s *search) draw() Plan {
	g := s.guide
	turn := g.turns % roundOfTurns
	g.turns++
	single, cost := g.nextSingle()
	if single == nil || cost >= breadth && g.turns > firstSingles {
		if turn < randomTurns {
			return s.combine()
		}
		due := single != nil && (cost < g.unpromising() && turn < randomTurns+singleTurns || g.turns%g.unpromisingTurns() == 0)
		if single == nil {
			cost = math.MaxInt
		}
		if !due {
			if o, index := s.cheapest(cost); o != nil {
				return s.extend(o, index)
			}
		}
	}
	if single == nil {
		return s.combine()
	}
	single.done, single.doubtful = true, cost >= doubtful
	return Plan{Seed: s.options.Seed, Faults: []fault.Fault{single.Fault}}
}

// ranked returns the faults to try in addition to those of a run, the most promising first, without those that are excluded and those that have no
// effect at their steps together with the faults of the run.
func (s *search) ranked(run *history.Run, faults []fault.Fault) []ranked {
	return byRank(s.additions(run, faults, nil))
}

// additions is like ranked, in the order of the run; if wanted is not nil, it returns only those at wanted steps.
func (s *search) additions(run *history.Run, faults []fault.Fault, wanted func(step int) bool) []ranked {
	at := hitsAt(run, faults)
	return slices.DeleteFunc(findCandidates(run, s.patterns, s.pace, wanted), func(f ranked) bool {
		return s.isExcluded(f.Fault) || len(at[f.step]) > 0 && !s.haveEffect(at[f.step], f.Fault)
	})
}

// together are two faults at one step, without their places.
type together struct{ hit, more fault.Fault }

// haveEffect is inject.Combine, and remembers its results for two faults: they do not depend on the step.
func (s *search) haveEffect(hits []fault.Fault, f fault.Fault) bool {
	if len(hits) > 1 {
		return inject.Combine(hits, f)
	}
	t := together{withoutPlace(hits[0]), withoutPlace(f)}
	known, ok := s.combines[t]
	if !ok {
		if known = inject.Combine(hits, f); s.combines == nil {
			s.combines = map[together]bool{}
		}
		s.combines[t] = known
	}
	return known
}

// hitsAt returns the faults of a plan that act at each step of its run, and those that block the request of the step.
func hitsAt(run *history.Run, faults []fault.Fault) map[int][]fault.Fault {
	at := map[int][]fault.Fault{}
	if len(faults) == 0 {
		return at
	}
	plan := fault.NewPlan(faults)
	for n := range run.Steps {
		s := &run.Steps[n]
		for item, ofStep := range arrivals(s) {
			hits := plan.Meet(item)
			if !ofStep {
				continue
			}
			for _, f := range faults {
				if _, blocked := inject.Blocked(f, item.Write); blocked && s.Fault == f.String() && !slices.Contains(hits, f) {
					hits = append(hits, f)
				}
			}
			if len(hits) > 0 {
				at[n] = hits
			}
		}
	}
	return at
}

// isExcluded reports whether a fault must not be tried.
func (s *search) isExcluded(f fault.Fault) bool {
	return fault.Allowed(s.except, f) || f.Actor != "" && verdict.IsTrusted(s.trusted, f.Actor)
}

const (
	// redraws is how many combinations in a row may repeat earlier ones until the search of a small space stops.
	redraws = 1000
	// breadth is the cost below which every single fault is tried before the first combination: the most promising kinds at
	// each place that matters.
	breadth = 1
	// firstSingles is how many single faults come before the first combination in any case: a failure with one fault is
	// easier to understand.
	firstSingles = 40
	// Of roundOfTurns turns, randomTurns are for random combinations and singleTurns for single faults.
	roundOfTurns, randomTurns, singleTurns = 8, 2, 3
	// unpromising is the cost from which on a single fault has no such turn, but one turn in unpromisingTurns. After minDoubtful runs of single faults
	// with a cost of at least doubtful, more than a third of which have shown nothing new, doubtful takes the place of unpromising, and fewTurns that of
	// unpromisingTurns.
	unpromising, doubtful      = 10, 7
	unpromisingTurns, fewTurns = 10, 25
	minDoubtful                = 8
)

// identity is the same for plans with the same seed, faults and schedule.
func identity(p Plan) string {
	texts := fault.Strings(p.Faults)
	slices.Sort(texts)
	id := strconv.FormatUint(p.Seed, 10) + " " + strings.Join(texts, ";")
	if !p.Schedule.IsZero() {
		id += " " + fmt.Sprint(p.Schedule.Seed, p.Schedule.Depth, p.Schedule.Choices)
	}
	return id
}

// withoutFaults plays the runs that define the baseline.
func (s *search) withoutFaults(ctx context.Context) error {
	for n := range baselines {
		out, err := s.untilPassing(ctx, Plan{Seed: baselineSeed(s.options.Seed, n), Learn: true, Vary: n > 0})
		if err != nil {
			return err
		}
		if n == 0 {
			s.result.Baseline, s.choices = out.Run, out.Choices
			if err := s.findPlaces(out); err != nil {
				return err
			}
		}
		for _, now := range situationsOf(out.Run) {
			s.guide.usual[now] = true
		}
		s.learn(out)
	}
	s.learned()
	return nil
}

// learned makes the baseline of the runs without faults.
func (s *search) learned() {
	if s.baseline = verdict.NewBaseline(s.states); s.baseline == nil {
		return
	}
	s.baseline.MaskPeriodic(s.periodic)
	s.baseline.MaskEdited(s.edited)
	s.expects = s.expectation()
	if !s.endsVary {
		s.result.NotCompared = s.baseline.NotCompared()
	}
}

// maxFailedBaselines limits how often a run without faults is tried again after it failed.
const maxFailedBaselines = 5

// untilPassing tries a run without faults until it passes, because a baseline must. It returns errStop if the
// run fails with a failure that ends the search, or too often.
func (s *search) untilPassing(ctx context.Context, p Plan) (*Outcome, error) {
	for range maxFailedBaselines {
		out, err := s.try(ctx, p)
		if !errors.Is(err, errFailed) {
			return out, err
		}
		if err := s.judgeFailed(ctx); err != nil {
			return nil, err
		}
	}
	s.result.Stopped = fmt.Sprintf("the run without faults failed %d times: there is nothing to compare other runs with", maxFailedBaselines)
	return nil, errStop
}

// learn adds the outcome of a run without faults to what the baseline is made of.
func (s *search) learn(out *Outcome) {
	for n := range out.Run.Steps {
		if id, ok := verdict.EditedID(&out.Run.Steps[n]); ok {
			if s.edited == nil {
				s.edited = map[string]bool{}
			}
			s.edited[id] = true
		}
	}
	for _, name := range out.Exempt {
		if s.exempt == nil {
			s.exempt = map[string]bool{}
		}
		s.exempt[name] = true
	}
	s.endsVary = out.EndsVary
	s.periodic = verdict.MergePeriodic(s.periodic, out.Periodic)
	if out.State != nil {
		s.states = append(s.states, out.State)
	}
}

// try plays one plan. The error is errStop when the search is over, and errFailed if the run failed.
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
	try := s.tryUntilFailure
	if len(s.options.Others) > 0 {
		try = s.tryAhead
	}
	for {
		err := try(ctx, next)
		if judged := s.judgeFailed(ctx); judged != nil {
			return judged
		}
		if !errors.Is(err, errFailed) {
			return err
		}
	}
}

// tryUntilFailure tries the next plans until a run fails: then it waits for those in progress and returns
// errFailed. It returns errStop when no plan is left or the search is over.
func (s *search) tryUntilFailure(ctx context.Context, next func() (Plan, bool)) error {
	var workers errgroup.Group
	var ended error // why no further plan is drawn; guarded by mu
	draw := func() (Plan, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if ended != nil {
			return Plan{}, ended
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
				over := ended != nil && !errors.Is(ended, errFailed)
				if err == nil && !over { // outcomes after the end are ignored
					err = s.account(ctx, out)
				}
				if err != nil && !over {
					ended = err
				}
				s.mu.Unlock()
				if err != nil {
					return err
				}
			}
		})
	}
	err := workers.Wait()
	return cmp.Or(ended, err) // a later error of the world is more important than a failure
}

// admit returns errStop if no further plan may be played.
func (s *search) admit(ctx context.Context, p Plan) error {
	switch {
	case ctx.Err() != nil:
		s.result.Stopped = "interrupted"
		return errStop
	case s.begun >= s.options.Runs:
		return errStop
	case s.outOfTime():
		s.result.Stopped = fmt.Sprintf("its budget of %s ran out", s.options.Budget)
		return errStop
	}
	s.begun++
	s.tried[identity(p)] = true
	return nil
}

// outOfTime reports whether the time budget has run out.
func (s *search) outOfTime() bool { return !s.until.IsZero() && s.options.Now().After(s.until) }

// account adds the outcome of a run to the result. It returns errFailed if the run failed.
func (s *search) account(ctx context.Context, out *Outcome) error {
	if ctx.Err() != nil && s.options.Live {
		s.result.Stopped = "interrupted" // the run was interrupted and has no result
		return errStop
	}
	s.result.Runs++
	if !out.Plan.Schedule.IsZero() {
		s.result.Schedules++
	}
	s.countPlan(out)
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
	if out.discarded {
		return nil
	}
	s.learnBehaviour(out)
	if out.Run.Failure != nil {
		s.failed = append(s.failed, failedRun{out, s.result.Runs})
		return errFailed
	}
	return nil
}

// countPlan counts the plan of a run. One with a fault that met no request and no event is not counted as tried: the run
// says nothing about that fault.
func (s *search) countPlan(out *Outcome) {
	switch faults := out.Plan.Faults; {
	case len(faults) == 0:
	case len(out.Unmet) > 0:
		s.result.NotApplied++
		if out.Plan.Kept {
			s.result.NoLongerApply = append(s.result.NoLongerApply, out.Plan)
		}
	case len(faults) == 1 && s.single[faults[0]] && out.Plan.Schedule.IsZero():
		delete(s.single, faults[0]) // with another seed it counts as random
		s.result.Systematic++
	default:
		s.result.Random++
		switch {
		case len(faults) == 2:
			s.result.Pairs++
		case len(faults) > 2:
			s.result.Larger++
		}
	}
}

// maxCorpus limits the number of runs from which further plans are derived.
const maxCorpus = 256

// remember adds a passing run to the corpus; a full corpus drops another one.
func (s *search) remember(out *Outcome) {
	if len(s.corpus) < maxCorpus {
		s.corpus = append(s.corpus, out)
		return
	}
	s.corpus[fault.Pick(maxCorpus, uint64(out.Run.Hash()), "corpus")] = out
}

func (s *search) play(ctx context.Context, p Plan) (*Outcome, error) {
	return playOn(ctx, s.world, s.prepared(p))
}

// prepared returns a plan with what its run is compared with.
func (s *search) prepared(p Plan) Plan {
	if s.baseline == nil {
		return p
	}
	p.Exempt, p.Periodic, p.expects = s.exempt, s.periodic, s.expects
	p.Expect = s.baseline.CompareAfter(p.Faults)
	if s.baseline.ExpectsGenerations() {
		p.Generations = s.baseline.CompareGenerations
	}
	return p
}

func playOn(ctx context.Context, world World, p Plan) (*Outcome, error) {
	out, err := world.Play(ctx, p)
	if err != nil {
		return nil, err
	}
	out.Plan = p
	out.discardRejected()
	return out, nil
}
