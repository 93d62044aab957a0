package sim

import (
	"context"
	"slices"

	"github.com/rehearse-k8s/rehearse/history"
)

// maxShrinkRuns bounds the work on one failure.
const maxShrinkRuns = 200

// small confirms a failure and makes it small: without the faults that do not
// matter, each held back as short as it can be, in as few steps as possible.
func (s *search) small(ctx context.Context, p Plan, found *Outcome) (*Failure, error) {
	f := &Failure{
		Plan: p, Run: found.Run, FoundAfter: s.result.Runs,
		FoundFaults: len(p.Faults), FoundSteps: len(found.Run.Steps),
	}
	if found.Final {
		return f, nil
	}
	for range repeats {
		again, err := s.play(ctx, p)
		if err != nil {
			return f, err
		}
		if sameFailure(found.Run, again.Run) {
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
	f.Plan.Expect, f.Plan.Exempt = nil, nil
	return f, nil
}

// illustrate plays the failure, and the run that comes nearest to it, once more for
// records that have the contents of objects. A run that does not come again as it was
// stays as it is.
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

// sameFailure tells whether two runs broke the same promise.
func sameFailure(a, b *history.Run) bool {
	return a.Failure != nil && b.Failure != nil && a.Failure.Oracle == b.Failure.Oracle
}

// shrink replaces the failure's plan by smaller ones as long as they fail alike.
func (s *search) shrink(ctx context.Context, f *Failure) error {
	for again := true; again; {
		again = false
		for _, smaller := range smallerPlans(f.Plan) {
			if f.ShrinkRuns >= maxShrinkRuns || ctx.Err() != nil {
				return nil
			}
			f.ShrinkRuns++
			out, err := s.play(ctx, smaller)
			if err != nil {
				return err
			}
			if out.Run.Failure == nil {
				s.remember(out)
				continue
			}
			if sameFailure(f.Run, out.Run) && simpler(smaller, out.Run, f.Plan, f.Run) {
				f.Plan, f.Run, again = smaller, out.Run, true
				break
			}
		}
	}
	return nil
}

// smallerPlans are the plans one step simpler than p: the most gain first.
func smallerPlans(p Plan) (plans []Plan) {
	for n := range p.Faults {
		plans = append(plans, Plan{Seed: p.Seed, Faults: slices.Delete(slices.Clone(p.Faults), n, n+1)})
	}
	for n, f := range p.Faults {
		if !f.Kind.Holds() {
			continue
		}
		for _, l := range lags {
			if f.For == l.For && f.Writes == l.Writes {
				break // the rest is longer
			}
			faults := slices.Clone(p.Faults)
			faults[n].For, faults[n].Writes = l.For, l.Writes
			plans = append(plans, Plan{Seed: p.Seed, Faults: faults})
		}
	}
	return plans
}

// simpler tells whether plan a with run x, which is one of the smaller plans of b, is
// to be preferred to b with run y: fewer faults, or what is held back shorter in no
// more steps.
func simpler(a Plan, x *history.Run, b Plan, y *history.Run) bool {
	if len(a.Faults) != len(b.Faults) {
		return len(a.Faults) < len(b.Faults)
	}
	return len(x.Steps) <= len(y.Steps)
}

// nearest is the run that held and shares the longest beginning with a failed one.
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
