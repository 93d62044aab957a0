package sim

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// failedRun is a run of the search that failed.
type failedRun struct {
	out   *Outcome
	after int // the number of runs when it ended
}

// judgeFailed judges the runs that failed since the last call. It returns errStop if the search is over.
func (s *search) judgeFailed(ctx context.Context) error {
	for len(s.failed) > 0 {
		found := s.failed[0]
		s.failed = s.failed[1:]
		if err := s.judge(ctx, found); err != nil {
			return err
		}
	}
	return nil
}

// judge repeats a run that failed. It shrinks a failure that reproduces, and lists the failure.
func (s *search) judge(ctx context.Context, found failedRun) error {
	if later, err := s.reachesLater(ctx, found.out); later || err != nil {
		return err
	}
	key := verdict.FailureKey(found.out.Run)
	before := sameFailure(s.known[key], found.out.Plan)
	if before != nil && before.reproducible() {
		before.Times++
		return nil
	}
	s.judged = judged{run: found.after}
	s.reportRepeats(0)
	defer func() {
		s.judged = judged{}
		s.reportRepeats(0)
	}()
	f, err := s.confirm(ctx, found, before != nil)
	if !f.reproducible() && !found.out.Final {
		if before != nil {
			before.Times++
		} else {
			s.known[key] = append(s.known[key], f)
			s.result.SeenOnce = append(s.result.SeenOnce, f)
		}
		return err
	}
	if before != nil { // now it reproduces
		f.Times += before.Times
		isBefore := func(other *Failure) bool { return other == before }
		s.result.SeenOnce = slices.DeleteFunc(s.result.SeenOnce, isBefore)
		s.known[key] = slices.DeleteFunc(s.known[key], isBefore)
	}
	s.known[key] = append(s.known[key], f)
	s.result.Failures = append(s.result.Failures, f)
	s.result.Failure = s.result.Failures[0]
	if s.options.KeepGoing && s.options.Budget > 0 {
		s.judged.until = s.options.Now().Add(s.options.Budget / failureShare)
	}
	for _, improve := range []func(context.Context, *Failure) error{s.shrink, s.raise, s.illustrate} {
		if err == nil && !found.out.Final {
			err = improve(ctx, f)
		}
	}
	if err == nil && (!s.options.KeepGoing || found.out.Final || f.Plan.Learn && f.Same == f.Repeats) {
		err = errStop
	}
	return err
}

// confirm repeats a run that failed, without the faults that did not fire. seenBefore: the same failure was
// repeated before and did not reproduce.
func (s *search) confirm(ctx context.Context, found failedRun, seenBefore bool) (*Failure, error) {
	out := found.out
	f := &Failure{
		Plan: out.Plan, Run: out.Run, FoundAfter: found.after, Live: s.options.Live, Times: 1,
		FoundFaults: len(out.Plan.Faults), FoundSteps: len(out.Run.Steps),
	}
	f.Plan.Expect, f.Plan.Generations, f.Plan.Exempt, f.Plan.Periodic = nil, nil, nil, nil
	f.Plan.extends, f.Plan.inSituation, f.Plan.expects = nil, false, nil
	if out.Final {
		return f, nil
	}
	try := func(p Plan) (r *repeats, err error) {
		f.Plan = p
		r = &repeats{plan: p, like: out.Run, first: out.Run}
		for n := r.more(seenBefore); n > 0 && err == nil && !s.stopsRepeats(ctx, r.Tally); n = r.more(seenBefore) {
			err = s.repeat(ctx, r, n)
		}
		s.begun += r.Repeats
		s.result.Repeats += r.Repeats
		return r, err
	}
	named, hidden := fired(out)
	all := f.Plan
	again, err := try(all.withFaults(named))
	if err == nil && !again.reproducible() && len(hidden) > 0 {
		// One that another fault hides in the record may be needed nevertheless.
		again, err = try(all.withFaults(slices.DeleteFunc(slices.Clone(all.Faults), func(f fault.Fault) bool {
			return !slices.Contains(named, f) && !slices.Contains(hidden, f)
		})))
	}
	f.Tally = again.Tally
	switch {
	case len(f.Plan.Faults) == len(all.Faults):
	case again.run != nil:
		f.Run = again.run
	default:
		run := *f.Run
		run.Faults = fault.Strings(f.Plan.Faults)
		f.Run = &run
	}
	if near := s.nearest(f.Run); near != nil {
		f.Nearest = near.Run
	}
	return f, err
}

// stopsRepeats reports whether the search is interrupted, or out of time after the first repeats.
func (s *search) stopsRepeats(ctx context.Context, t Tally) bool {
	return ctx.Err() != nil || t.Repeats >= firstRepeats && s.outOfTime()
}

// repeats are the repeated runs of one plan.
type repeats struct {
	Tally
	plan Plan
	// like is the failure to reproduce. first is the run whose steps are expected; nil: none is known yet.
	like, first *history.Run
	// run is the best record of the failure among them: one in which every fault of the plan fired, with the
	// fewest steps; nil if none failed in the same way. named are the faults that fired in it.
	run   *history.Run
	named []fault.Fault
}

// repeat plays the plan n more times, and counts the runs.
func (s *search) repeat(ctx context.Context, r *repeats, n int) error {
	outs, err := s.playAll(ctx, slices.Repeat([]Plan{r.plan}, n))
	if err != nil || ctx.Err() != nil && s.options.Live { // interrupted runs have no result
		return err
	}
	s.count(r, outs)
	return nil
}

// count counts runs of the plan.
func (s *search) count(r *repeats, outs []*Outcome) {
	for _, out := range outs {
		if out.Run.Failure == nil && !out.discarded {
			s.remember(out)
		}
		if !verdict.SameFailure(r.like, out.Run) {
			r.Tally = r.add(false, false)
			continue
		}
		if r.first == nil {
			r.first = out.Run
		}
		r.Tally = r.add(true, out.Run.Hash() == r.first.Hash())
		named, _ := fired(out)
		if r.run == nil || len(named) > len(r.named) || len(named) == len(r.named) && len(out.Run.Steps) < len(r.run.Steps) {
			r.run, r.named = out.Run, named
		}
	}
}

// playAll plays plans, Options.Parallel at a time, and returns their outcomes in order.
func (s *search) playAll(ctx context.Context, plans []Plan) ([]*Outcome, error) {
	outs := make([]*Outcome, len(plans))
	var workers errgroup.Group
	workers.SetLimit(max(1, s.options.Parallel))
	for n, p := range plans {
		workers.Go(func() (err error) {
			outs[n], err = s.play(ctx, p)
			return err
		})
	}
	err := workers.Wait()
	s.reportRepeats(len(plans))
	return outs, err
}

// failureShare divides the budget of a search that keeps going: about one such part is the most that it spends to shrink one failure and to raise its
// rate. A race whose violation takes half a minute would otherwise take a third of the budget.
const failureShare = 10

// judged is the failure that a search repeats and shrinks.
type judged struct {
	run, repeats int       // how many runs there were when it was found (0: none), and how many repeats
	until        time.Time // no more repeats shrink it or raise its rate; zero: there is no such limit
}

// improvedEnough reports whether no time is left to shrink a failure or to raise its rate.
func (s *search) improvedEnough() bool {
	return s.outOfTime() || !s.judged.until.IsZero() && s.options.Now().After(s.judged.until)
}

// reportRepeats reports that so many more runs repeated a failure.
func (s *search) reportRepeats(more int) {
	s.judged.repeats += more
	if s.options.Repeats != nil {
		s.options.Repeats(s.judged.run, s.judged.repeats)
	}
}
