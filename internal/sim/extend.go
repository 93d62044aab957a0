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
	// postponed: its signature is expected to be a known one.
	postponed bool
}

// trial is what a search tries once: a fault of a kind, with a duration and a target, in a situation.
type trial struct {
	situation
	effect fault.Fault // a fault without its place
}

// origin is a plan whose run showed new behaviour, with the extensions that are left.
type origin struct {
	plan Plan
	// out is the outcome of the plan until its extensions are known, and nil afterwards: a record is large.
	out        *Outcome
	steps      int // of the record
	extensions []extension
	// tried are the faults of extensions that were tried.
	tried []fault.Fault
}

const (
	// pairCost is how much more an extension of a plan with one fault costs than the same fault alone.
	pairCost = 1
	// depthCost is how much more each further fault of the plan costs: most bugs need two faults.
	depthCost = 3
	// alikeCost is how much more a kind costs that usually has the effect of another one.
	alikeCost = 4
	// maxExtensions limits the extensions of a plan. Random combinations may still try the others.
	maxExtensions = 64
)

// leastCost is the lowest possible cost of an extension of a plan.
func leastCost(p Plan) int { return pairCost + depthCost*(len(p.Faults)-1) }

// alike are the kinds whose effect is usually that of another kind: of an error, a lost answer, a late event or a late request.
var alike = []fault.Kind{
	fault.KindThrottle, fault.KindDeny, fault.KindTimeout, fault.KindErrorAfter, fault.KindOutage, fault.KindPartition,
	fault.KindPause, fault.KindLateAnswer, fault.KindDeposedWrite, fault.KindLabel,
}

// extensionsOf returns the faults at the new situations of a run, the most promising first, without trials that this or another plan already offers
// at the same cost.
func (s *search) extensionsOf(out *Outcome) (offers []extension) {
	from, _ := s.differs(out.Run)
	at := s.newSituations(out.Run, from)
	found := s.additions(out.Run, out.Plan.Faults, func(step int) bool { _, isNew := at[step]; return isNew })
	cost := func(f *ranked) (cost, away int) {
		away, rank := f.step-from, f.rank
		if away < 0 { // the nearest of many similar events comes first, and not the first one
			if away, rank = -away, f.kind; f.idle {
				rank += noDifference
			}
		}
		cost = leastCost(out.Plan) + rank + bits.Len(uint(away)/16)
		if slices.Contains(alike, f.Kind) {
			cost += alikeCost
		}
		return cost, away
	}
	for _, n := range inOrder(found, func(f *ranked) [3]int { c, away := cost(f); return [3]int{c, away, f.rank} }) {
		f := &found[n]
		e := extension{Fault: f.Fault, trial: trial{at[f.step], withoutPlace(f.Fault)}}
		e.cost, _ = cost(f)
		if known, ok := s.guide.offered[e.trial]; ok && known <= e.cost {
			continue
		}
		s.guide.offered[e.trial] = e.cost
		if offers = append(offers, e); len(offers) == maxExtensions {
			break
		}
	}
	return offers
}

// newSituations returns the situations, by step, that the runs without faults do not have. That of an event before the step from which the run
// has changed is the one in which its controller decides from it.
func (s *search) newSituations(run *history.Run, from int) map[int]situation {
	at := situationsOf(run)
	all := map[int]situation{}
	for step, now := range at {
		ok := true
		if step < from {
			now, ok = decidedFrom(run, at, step, from)
		}
		if ok && !s.guide.usual[now] {
			all[step] = now
		}
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

// findExtensions sets the extensions of a plan, if they are not known, and drops its outcome.
func (s *search) findExtensions(o *origin) {
	if o.out != nil {
		o.extensions, o.out = s.extensionsOf(o.out), nil
	}
}

// cheapest returns the plan with the cheapest extension and the index of that extension; nil if none costs less than limit. It postpones
// those whose signature is expected to be a known one.
func (s *search) cheapest(limit int) (best *origin, index int) {
	for {
		best, index = s.cheapestOffer(limit)
		if best == nil {
			return nil, 0
		}
		e := &best.extensions[index]
		if e.postponed || !s.guide.isExpected(e.Fault, slices.Values(best.tried)) {
			return best, index
		}
		e.postponed = true
		e.cost += postponedCost
		slices.SortStableFunc(best.extensions, func(a, b extension) int { return cmp.Compare(a.cost, b.cost) })
	}
}

// cheapestOffer is like cheapest, and postpones nothing.
func (s *search) cheapestOffer(limit int) (best *origin, index int) {
	g, lowest := s.guide, limit
	for _, o := range g.origins {
		if leastCost(o.plan) >= lowest {
			continue
		}
		s.findExtensions(o)
		for n := 0; n < len(o.extensions); n++ {
			e := &o.extensions[n]
			if e.cost >= lowest {
				break
			}
			if g.trials[e.trial] {
				o.extensions = slices.Delete(o.extensions, n, n+1)
				n--
				continue
			}
			if cost := e.cost + max(0, g.similar(e.Fault, false).penalty()); cost < lowest {
				best, index, lowest = o, n, cost
			}
		}
	}
	g.origins = slices.DeleteFunc(g.origins, func(o *origin) bool { return o.out == nil && len(o.extensions) == 0 })
	return best, index
}

// extend returns a plan with one of its extensions.
func (s *search) extend(o *origin, index int) Plan {
	e := o.extensions[index]
	s.guide.trials[e.trial] = true
	o.tried = append(o.tried, e.Fault)
	return Plan{Seed: o.plan.Seed, Faults: append(slices.Clone(o.plan.Faults), e.Fault), Schedule: o.plan.Schedule, inSituation: true}
}
