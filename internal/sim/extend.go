package sim

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// extension is one more fault for a plan, in a situation of its run that the runs without faults do not have.
type extension struct {
	fault.Fault
	trial
	cost int
	// away is the number of steps from where the run departs from the one without faults.
	away int
}

// trial is what a search tries once: a fault of a kind, with a duration and a target, in a situation.
type trial struct {
	situation
	kind fault.Fault // without the place
}

// origin is a plan whose run showed new behaviour, with the extensions that are left.
type origin struct {
	plan Plan
	// out is the outcome of the plan until its extensions are known, and nil afterwards: a record is large.
	out        *Outcome
	extensions []extension
}

const (
	// deeper is what each fault of a plan beyond the first adds to the cost of its extensions: most bugs need two faults.
	deeper = 3
	// combined is what the cost of an extension has to be lower than that of a single fault, for the same reason.
	combined = 1
	// alikeCost is what the cost grows by for kinds that usually have the effect of another one.
	alikeCost = 4
	// maxExtensions limits the extensions of a plan: the others are left to combine.
	maxExtensions = 64
)

// alike are the kinds whose effect is usually that of another kind: of an error, a lost answer, a late event or a late request.
var alike = []fault.Kind{
	fault.KindThrottle, fault.KindDeny, fault.KindTimeout, fault.KindErrorAfter, fault.KindOutage, fault.KindPartition,
	fault.KindPause, fault.KindLateAnswer, fault.KindDeposedWrite, fault.KindLabel,
}

// extensionsOf returns the faults at the new situations of a run, the most promising first. A trial that another plan offers at the same cost
// is left out.
func (s *search) extensionsOf(out *Outcome) (all []extension) {
	at := situationsOf(out.Run)
	from, _ := s.differs(out.Run)
	for _, f := range s.ranked(out.Run) {
		now, ok := at[f.step]
		away, rank := f.step-from, f.rank
		if away < 0 { // the nearest of many similar events comes first, and not the first one
			away, rank = -away, f.kind
			now, ok = decidedFrom(out.Run, at, f.step, from)
		}
		if !ok || s.guide.usual[now] {
			continue
		}
		cost := combined + deeper*(len(out.Plan.Faults)-1) + rank + bits.Len(uint(away)/16)
		if slices.Contains(alike, f.Kind) {
			cost += alikeCost
		}
		all = append(all, extension{f.Fault, trial{now, withoutPlace(f.Fault)}, cost, away})
	}
	slices.SortStableFunc(all, func(a, b extension) int { return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.away, b.away)) })
	own := map[trial]bool{}
	all = slices.DeleteFunc(all, func(e extension) bool {
		offered, known := s.guide.offered[e.trial]
		again := own[e.trial] || known && e.cost >= offered
		own[e.trial] = true
		return again
	})
	all = slices.Clip(all[:min(len(all), maxExtensions)])
	for _, e := range all {
		s.guide.offered[e.trial] = e.cost
	}
	return all
}

// decidedFrom returns the situation of the first write after an event of the same controller, if that event was before the step from which
// the run has changed, and the write is not: a replica that becomes the leader decides from events that it has received long before.
func decidedFrom(run *history.Run, at map[int]situation, event, from int) (situation, bool) {
	e := &run.Steps[event]
	if e.Kind != history.Frame {
		return situation{}, false
	}
	for n := event + 1; n < len(run.Steps); n++ {
		if s := &run.Steps[n]; s.Kind == history.Request && s.Actor == e.Actor && s.IsWrite() && !history.Bookkeeping(s.Resource) {
			now := at[n]
			now.what = at[event].what + ", then " + now.what
			return now, n >= from
		}
	}
	return situation{}, false
}

// withoutPlace returns what a fault does, without where.
func withoutPlace(f fault.Fault) fault.Fault {
	return fault.Fault{Kind: f.Kind, For: f.For, Writes: f.Writes, Until: f.Until, Target: f.Target}
}

// know finds the extensions of a plan, and lets go of its outcome.
func (s *search) know(o *origin) {
	if o.out != nil {
		o.extensions, o.out = s.extensionsOf(o.out), nil
	}
}

// cheapest returns the plan with the cheapest extension, the index of that extension and its cost; nil if there is none.
func (s *search) cheapest() (best *origin, index, lowest int) {
	g := s.guide
	for _, o := range g.origins {
		if least := combined + deeper*(len(o.plan.Faults)-1); best != nil && least >= lowest {
			continue
		}
		s.know(o)
		for n := 0; n < len(o.extensions); n++ {
			e := &o.extensions[n]
			if best != nil && e.cost >= lowest {
				break
			}
			if g.trials[e.trial] {
				o.extensions = slices.Delete(o.extensions, n, n+1)
				n--
				continue
			}
			if cost := e.cost + max(0, g.similar(e.Fault, false).penalty()); best == nil || cost < lowest {
				best, index, lowest = o, n, cost
			}
		}
	}
	g.origins = slices.DeleteFunc(g.origins, func(o *origin) bool { return o.out == nil && len(o.extensions) == 0 })
	return best, index, lowest
}

// extend returns a plan with one of its extensions.
func (s *search) extend(o *origin, index int) Plan {
	e := o.extensions[index]
	s.guide.trials[e.trial] = true
	return Plan{Seed: o.plan.Seed, Faults: append(slices.Clone(o.plan.Faults), e.Fault), Schedule: o.plan.Schedule, inSituation: true}
}
