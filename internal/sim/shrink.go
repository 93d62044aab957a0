package sim

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// maxShrinkRuns limits the runs that shrink one failure.
const maxShrinkRuns = 200

// confirmAndShrink repeats a failure, and shrinks it: it removes the faults that are not needed,
// shortens the others, and prefers runs with fewer steps.
func (s *search) confirmAndShrink(ctx context.Context, found *Outcome) (*Failure, error) {
	p := found.Plan
	f := &Failure{
		Plan: p, Run: found.Run, FoundAfter: s.result.Runs, Live: s.options.Live,
		FoundFaults: len(p.Faults), FoundSteps: len(found.Run.Steps),
	}
	f.Plan.Expect, f.Plan.Exempt, f.Plan.Periodic = nil, nil, nil
	if found.Final {
		return f, nil
	}
	repeated, err := s.playAll(ctx, slices.Repeat([]Plan{p}, repeats))
	if err != nil {
		return f, err
	}
	for _, again := range repeated {
		if verdict.SameFailure(found.Run, again.Run) {
			f.Same++
			if again.Run.Hash() == found.Run.Hash() {
				f.Identical++
			}
		}
	}
	if err := s.shrink(ctx, f); err != nil {
		return f, err
	}
	if err := s.illustrate(ctx, f); err != nil {
		return f, err
	}
	return f, nil
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
	return outs, workers.Wait()
}

// illustrate plays the failure and its nearest passing run once more, for records with the contents
// of objects. The record of a run that does not repeat stays as it is.
func (s *search) illustrate(ctx context.Context, f *Failure) error {
	again := func(p Plan, run *history.Run) (*history.Run, error) {
		p.Objects = true
		out, err := s.play(ctx, p)
		if err != nil || out.Run.Hash() != run.Hash() || (out.Run.Failure == nil) != (run.Failure == nil) {
			return run, err
		}
		return out.Run, nil
	}
	var err error
	if f.Run, err = again(f.Plan, f.Run); err != nil {
		return err
	}
	if near := s.nearest(f.Run); near != nil {
		f.Nearest, err = again(near.Plan, near.Run)
	}
	return err
}

// shrink replaces the failure's plan by smaller ones as long as they violate the same invariant.
func (s *search) shrink(ctx context.Context, f *Failure) error {
	for again := true; again; {
		again = false
		for plans := range slices.Chunk(smallerPlans(f.Plan, s.pace), max(1, s.options.Parallel)) {
			if f.ShrinkRuns >= maxShrinkRuns || ctx.Err() != nil {
				return nil
			}
			f.ShrinkRuns += len(plans)
			outs, err := s.playAll(ctx, plans)
			if err != nil {
				return err
			}
			for n, out := range outs {
				if out.Run.Failure == nil {
					s.remember(out)
				} else if !again && verdict.SameFailure(f.Run, out.Run) && simpler(plans[n], out.Run, f.Plan, f.Run) {
					f.Plan, f.Run, again = plans[n], out.Run, true
				}
			}
			if again {
				break
			}
		}
	}
	return nil
}

// smallerPlans are the plans one step simpler than p: the most gain first.
func smallerPlans(p Plan, pace Pace) (plans []Plan) {
	for n := range p.Faults {
		plans = append(plans, Plan{Seed: p.Seed, Faults: slices.Delete(slices.Clone(p.Faults), n, n+1)})
	}
	for n, f := range p.Faults {
		if !f.Kind.Holds() {
			continue
		}
		for _, l := range pace.lags {
			if f.Until == "" && f.For == l.For && f.Writes == l.Writes {
				break // the rest is longer
			}
			faults := slices.Clone(p.Faults)
			faults[n].For, faults[n].Writes, faults[n].Until, faults[n].UntilRevision = l.For, l.Writes, "", 0
			plans = append(plans, Plan{Seed: p.Seed, Faults: faults})
		}
	}
	return plans
}

// simpler reports whether plan a with run x, which is one of the smaller plans of b, is preferable to
// b with run y: it has fewer faults, or shorter ones and not more steps.
func simpler(a Plan, x *history.Run, b Plan, y *history.Run) bool {
	if len(a.Faults) != len(b.Faults) {
		return len(a.Faults) < len(b.Faults)
	}
	return len(x.Steps) <= len(y.Steps)
}

// nearest returns the passing run that shares the longest prefix of steps with a failed one.
func (s *search) nearest(failed *history.Run) (best *Outcome) {
	longest := -1
	for _, out := range s.corpus {
		n := 0
		for n < len(failed.Steps) && n < len(out.Run.Steps) && failed.Steps[n].Hash == out.Run.Steps[n].Hash {
			n++
		}
		if n > longest {
			longest, best = n, out
		}
	}
	return best
}
