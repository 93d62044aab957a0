package sim

import (
	"context"
	"slices"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// maxShrinkRuns limits the runs that shrink one failure.
const maxShrinkRuns = 200

// illustrate plays the failure and its nearest passing run once more, for records with the contents
// of objects. The record of a run that does not repeat stays as it is.
func (s *search) illustrate(ctx context.Context, f *Failure) error {
	if s.options.Live { // no run has the same steps, and each record has the contents
		if near := s.nearest(f.Run); near != nil {
			f.Nearest = near.Run
		}
		return nil
	}
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

// shrink replaces the failure's plan by smaller ones, as long as they fail in the same way and as reliably.
func (s *search) shrink(ctx context.Context, f *Failure) error {
	found := &repeats{Tally: f.Tally, plan: f.Plan, like: f.Run, first: f.Run, run: f.Run, named: f.Plan.Faults}
	for best := found; ; {
		smaller, err := s.firstAccepted(ctx, f, found)
		if err != nil {
			return err
		}
		if smaller == nil {
			f.Tally = best.Tally // there may be further repeats of the plan that was found
			return s.dropUnfired(ctx, f, best)
		}
		best = smaller
		f.Plan, f.Run = best.plan, best.run
	}
}

// firstAccepted returns the first of the smaller plans that fails as reliably as the plan that was found; nil if
// there is none.
func (s *search) firstAccepted(ctx context.Context, f *Failure, found *repeats) (*repeats, error) {
	// If every run has the same steps, one run is enough to reject a plan.
	screening := firstRepeats
	if found.deterministic() {
		screening = 1
	}
	for plans := range slices.Chunk(smallerPlans(f.Plan, s.pace), max(1, s.options.Parallel/screening)) {
		if s.stopsShrinking(ctx, f) {
			return nil, nil
		}
		var all []Plan
		for _, p := range plans {
			all = append(all, slices.Repeat([]Plan{p}, screening)...)
		}
		f.ShrinkRuns += len(all)
		outs, err := s.playAll(ctx, all)
		if err != nil || ctx.Err() != nil && s.options.Live {
			return nil, err
		}
		var candidates []*repeats
		for n, p := range plans {
			r := &repeats{plan: p, like: f.Run}
			s.count(r, outs[n*screening:(n+1)*screening])
			candidates = append(candidates, r)
		}
		for _, r := range candidates {
			accepted, err := s.accepts(ctx, f, found, r)
			if len(r.plan.Faults) == 0 && len(f.Plan.Faults) > 0 && !accepted {
				f.WithoutFaults = r.Tally
			}
			if err != nil || accepted && simpler(r.plan, r.run, f.Plan, f.Run) {
				return r, err
			}
		}
	}
	return nil, nil
}

// accepts repeats a smaller plan until it is decided whether it fails as reliably as the plan that was found.
func (s *search) accepts(ctx context.Context, f *Failure, found, smaller *repeats) (bool, error) {
	for {
		d := compare(smaller.Tally, found.Tally)
		switch {
		case d.repeats == 0:
			return d.accept, nil
		case s.stopsShrinking(ctx, f):
			return false, nil
		}
		r := smaller
		if d.found {
			r = found
		}
		f.ShrinkRuns += d.repeats
		if err := s.repeat(ctx, r, d.repeats); err != nil {
			return false, err
		}
	}
}

// stopsShrinking reports whether a failure is shrunk no further. A search that continues afterwards keeps to its
// budget.
func (s *search) stopsShrinking(ctx context.Context, f *Failure) bool {
	return f.ShrinkRuns >= maxShrinkRuns || ctx.Err() != nil || s.options.KeepGoing && s.improvedEnough()
}

// dropUnfired removes the faults that fired in none of the runs that failed, if the failure then reproduces.
func (s *search) dropUnfired(ctx context.Context, f *Failure, best *repeats) error {
	if len(best.named) == len(best.plan.Faults) {
		return nil
	}
	r := &repeats{plan: f.Plan.withFaults(best.named), like: f.Run}
	for n := r.more(false); n > 0 && !s.stopsRepeats(ctx, r.Tally); n = r.more(false) {
		f.ShrinkRuns += n
		if err := s.repeat(ctx, r, n); err != nil {
			return err
		}
	}
	if r.reproducible() {
		f.Plan, f.Run, f.Tally = r.plan, r.run, r.Tally
	}
	return nil
}

// smallerPlans are the plans one step simpler than p: those with a simpler schedule, then those with fewer faults, then those
// with shorter ones.
func smallerPlans(p Plan, pace Pace) (plans []Plan) {
	with := func(faults []fault.Fault) Plan { return Plan{Seed: p.Seed, Schedule: p.Schedule, Faults: faults} }
	for _, simpler := range simplerSchedules(p.Schedule) {
		plans = append(plans, Plan{Seed: p.Seed, Schedule: simpler, Faults: p.Faults})
	}
	if len(p.Faults) > 1 {
		plans = append(plans, with(nil))
	}
	for n := range p.Faults {
		plans = append(plans, with(slices.Delete(slices.Clone(p.Faults), n, n+1)))
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
			plans = append(plans, with(faults))
		}
	}
	return plans
}

// simpler reports whether plan a with run x, which is one of the smaller plans of b, is preferable to
// b with run y: it has a simpler schedule or fewer faults, or shorter ones and not more steps.
func simpler(a Plan, x *history.Run, b Plan, y *history.Run) bool {
	if a.Schedule.Depth != b.Schedule.Depth {
		return a.Schedule.Depth < b.Schedule.Depth
	}
	if len(a.Faults) != len(b.Faults) {
		return len(a.Faults) < len(b.Faults)
	}
	return len(x.Steps) <= len(y.Steps)
}

// nearest returns the passing run from which a failed one departs last.
func (s *search) nearest(failed *history.Run) (best *Outcome) {
	last := -1
	for _, out := range s.corpus {
		n := len(failed.Steps)
		if d, departs := failed.DepartsFrom(out.Run); departs {
			n = d.Step
		}
		if n > last {
			last, best = n, out
		}
	}
	return best
}
