package sim

import (
	"cmp"
	"context"
	"slices"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// A failure that reproduces rarely is hard to debug. A delay at the right place often makes it frequent: the
// event or answer that has to be late is then late in each run.

const (
	// maxRaiseRuns limits the runs that look for a delay, and maxDelays the delays that are tried.
	maxRaiseRuns = 80
	maxDelays    = 12
)

// Shrunk is the plan of a failure before a delay was added to raise its rate.
type Shrunk struct {
	Faults []fault.Fault
	Tally
}

// raise adds a delay to the plan of a failure with a low rate, or makes one longer, if the failure then
// reproduces significantly more often. A failure that reproduces often, but not each time, gets no further fault:
// only longer holds of its own faults are tried.
func (s *search) raise(ctx context.Context, f *Failure) error {
	if f.Same == f.Repeats || f.Plan.Learn {
		return nil
	}
	plans := longerHolds(f.Plan, s.pace)
	if f.hasLowRate() {
		plans = delayed(f.Plan, f.Run, faultsOf(s.ranked(f.Run, f.Plan.Faults)), s.pace)
	}
	var best *repeats
	found, last := f.Tally, f.ShrinkRuns+maxRaiseRuns
	for _, p := range plans {
		r := &repeats{plan: p, like: f.Run}
		d := raises(r.Tally, found)
		for ; d.repeats > 0; d = raises(r.Tally, found) {
			if f.ShrinkRuns >= last || ctx.Err() != nil || s.improvedEnough() {
				d = decision{}
				break
			}
			f.ShrinkRuns += d.repeats
			if err := s.repeat(ctx, r, d.repeats); err != nil {
				return err
			}
		}
		// A delay that did not fire raises nothing.
		if d.accept && len(r.named) == len(p.Faults) && (best == nil || r.rate() > best.rate()) {
			best = r
		}
		if best != nil && best.Same == best.Repeats {
			break
		}
	}
	if best != nil {
		f.Shrunk = &Shrunk{Faults: f.Plan.Faults, Tally: found}
		f.Plan, f.Run, f.Tally = best.plan, best.run, best.Tally
	}
	return nil
}

// delayed returns the plans that delay more than p does, the most promising first: with a longer hold of a fault
// of p, then with one of the single delays that act near the violation.
func delayed(p Plan, run *history.Run, single []fault.Fault, pace Pace) []Plan {
	plans := longerHolds(p, pace)
	for _, f := range delaysNear(run, single) {
		if !slices.Contains(p.Faults, f) {
			plans = append(plans, p.withFaults(append(slices.Clone(p.Faults), f)))
		}
	}
	return plans[:min(len(plans), maxDelays)]
}

// longerHolds returns the plans in which one fault of p holds longer, the shortest hold first.
func longerHolds(p Plan, pace Pace) (plans []Plan) {
	for n, f := range p.Faults {
		if !f.Kind.Holds() || f.Until != "" {
			continue
		}
		for _, longer := range pace.longer {
			if longer > f.For {
				faults := slices.Clone(p.Faults)
				faults[n].For, faults[n].Writes = longer, 0
				plans = append(plans, p.withFaults(faults))
			}
		}
	}
	return plans
}

// delaysNear returns the delays among single faults that act before the violation of a run: first those at the
// steps that led to it, the nearest first.
func delaysNear(run *history.Run, single []fault.Fault) []fault.Fault {
	type near struct {
		fault.Fault
		led  bool
		step int
	}
	causes := verdict.Causes(run, run.Failure.Step)
	var all []near
	for _, f := range single {
		switch f.Kind {
		case fault.KindLag, fault.KindLateRequest, fault.KindLateAnswer:
		default:
			continue
		}
		if step := actsAt(run, f); step >= 0 && step <= run.Failure.Step && f.Writes == 0 && f.Until == "" {
			all = append(all, near{f, causes[step], step})
		}
	}
	slices.SortStableFunc(all, func(a, b near) int {
		if a.led != b.led {
			if a.led {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.step, a.step)
	})
	faults := make([]fault.Fault, len(all))
	for n := range all {
		faults[n] = all[n].Fault
	}
	return faults
}

// actsAt returns the step of a run at which a fault would act; -1: none.
func actsAt(run *history.Run, f fault.Fault) int {
	plan := fault.NewPlan([]fault.Fault{f})
	for n := range run.Steps {
		for item := range arrivals(&run.Steps[n]) {
			if len(plan.Meet(item)) > 0 {
				return n
			}
		}
	}
	return -1
}
