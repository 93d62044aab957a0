package sim

import (
	"math/bits"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// guide chooses the next plan of a search. It learns from each run whether its behaviour was new (history.Run.Signature):
//
//   - Single faults come in the order of their cost, which begins with the kinds that find failures most often, at each place
//     once. Faults of a kind, actor, verb and resource that have shown nothing new cost more.
//   - Faults that hold something for a while are not tried for a duration between two others whose runs were the same.
//   - Pairs and larger combinations extend a run with new behaviour by one more fault. Each kind of fault is tried once in each situation
//     that the runs without faults do not have (situation), the most promising first.
//   - Some combinations are random: a fault after the step from which a run differs, where a controller lacks information or has lost its
//     memory, or anywhere.
//
// A search of one kind after the other, as in the first version, spent 30 to 80 % of its runs on behaviour that it had seen
// (docs/design/search.md).
type guide struct {
	singles []*single
	// at are the single faults by their place, and compared counts how often two effects had the same signature at a place.
	at       map[fault.Fault][]*single
	compared map[comparison]outcomes
	// classes counts runs by kind, actor, verb and resource: of single faults, and of the last faults of combinations.
	classes, combined map[fault.Fault]*yield
	bases             []*base
	// origins are the plans that can be extended at a situation that is not usual: that the runs without faults do not have. trials are the
	// tried ones, and offered is the lowest cost of each known one.
	origins []*origin
	usual   map[situation]bool
	trials  map[trial]bool
	offered map[trial]int
	// dropped are plans whose records are kept, because their extensions are not known yet, the oldest first, with the steps of these records.
	dropped      []*origin
	droppedSteps int
	// baseline is the signature of the run without faults: a hold of no duration.
	baseline history.Hash
	// doubtful counts the runs of single faults that were tried although their cost was high.
	doubtful yield
	// redundant are the single faults that need no run.
	redundant map[fault.Fault]bool
	// combinations counts the plans with several faults, and turns all plans.
	combinations, turns int
}

// single is a single fault of the systematic part.
type single struct {
	fault.Fault
	cost int
	done bool // tried, or known to be redundant
	// doubtful: it was tried although its cost was high.
	doubtful bool
	// postponed: its signature is expected to be a known one.
	postponed bool
	// signature is that of its run; only if known is set.
	known     bool
	signature history.Hash
}

// yield counts the runs of similar plans, and those of them whose behaviour was new.
type yield struct{ runs, new int }

func newGuide(faults []ranked, baseline history.Hash) *guide {
	g := &guide{baseline: baseline, redundant: map[fault.Fault]bool{}, at: map[fault.Fault][]*single{}, classes: map[fault.Fault]*yield{}, combined: map[fault.Fault]*yield{}, usual: map[situation]bool{}, trials: map[trial]bool{}, offered: map[trial]int{}, compared: map[comparison]outcomes{}}
	for _, f := range faults {
		s := &single{Fault: f.Fault, cost: f.rank}
		g.singles = append(g.singles, s)
		g.at[placeOf(f.Fault)] = append(g.at[placeOf(f.Fault)], s)
	}
	return g
}

// unlimited returns a fault without the duration of its hold.
func unlimited(f fault.Fault) fault.Fault {
	f.For, f.Writes, f.Until, f.UntilRevision = 0, 0, "", 0
	return f
}

// class returns what similar faults have in common: the kind, actor, verb and resource.
func class(f fault.Fault) fault.Fault {
	return fault.Fault{Kind: f.Kind, Actor: f.Actor, Verb: f.Verb, Resource: f.Resource}
}

// minRuns is how many runs of similar faults are not judged by whether they showed something new.
const minRuns = 3

// penalty grows with the share of runs that showed nothing new: up to 3, and 2 more for each doubling of the number of runs per new behaviour.
func (y *yield) penalty() int {
	if y == nil || y.runs < minRuns {
		return 0
	}
	return 2*(bits.Len(uint(y.runs/(1+y.new)))-1) + 4*(y.runs-y.new)/(y.runs+1)
}

// add counts a run.
func (y *yield) add(isNew bool) {
	y.runs++
	if isNew {
		y.new++
	}
}

// similar returns the runs of faults of the class of f: alone, or as the last fault of a combination.
func (g *guide) similar(f fault.Fault, alone bool) *yield {
	classes := g.combined
	if alone {
		classes = g.classes
	}
	y := classes[class(f)]
	if y == nil {
		y = &yield{}
		classes[class(f)] = y
	}
	return y
}

// cost of a single fault now: its own, and more after similar faults that showed nothing new.
func (g *guide) cost(s *single) int {
	if s.cost < breadth {
		return s.cost // at each place once
	}
	return s.cost + max(0, g.similar(s.Fault, true).penalty())
}

// areDoubtful reports whether more than a third of the single faults with a high cost showed nothing new.
func (g *guide) areDoubtful() bool {
	return g.doubtful.runs >= minDoubtful && 3*g.doubtful.new < 2*g.doubtful.runs
}

// unpromising returns the cost from which on a single fault has few turns.
func (g *guide) unpromising() int {
	if g.areDoubtful() {
		return doubtful
	}
	return unpromising
}

// unpromisingTurns returns in how many turns one is for a single fault with such a cost.
func (g *guide) unpromisingTurns() int {
	if g.areDoubtful() {
		return fewTurns
	}
	return unpromisingTurns
}

// nextSingle returns the next single fault to try, and its cost; nil: all were tried. It postpones those whose signature is expected to be a known one.
func (g *guide) nextSingle() (next *single, lowest int) {
	for {
		next, lowest = g.cheapestSingle()
		if next == nil || lowest < breadth || next.postponed || !g.isExpected(next.Fault, g.known(next.Fault)) {
			return next, lowest
		}
		next.postponed = true
		next.cost += postponedCost
	}
}

// cheapestSingle returns the single fault with the lowest cost; nil: all were tried.
func (g *guide) cheapestSingle() (next *single, lowest int) {
	for _, s := range g.singles {
		if s.done {
			continue
		}
		if cost := g.cost(s); next == nil || cost < lowest {
			next, lowest = s, cost
		}
	}
	return next, lowest
}

// isRedundant reports whether a fault holds something for a duration between those of two faults whose runs had the same
// signature: then its run has that signature too. For a fault that does nothing but hold, the run without faults is a hold
// without a duration.
func (g *guide) isRedundant(s *single) (signature history.Hash, redundant bool) {
	if !s.Kind.Holds() || s.Until != "" {
		return signature, false
	}
	d := duration(s.Fault)
	var shorter, longer *single
	for _, o := range g.at[placeOf(s.Fault)] {
		switch od := duration(o.Fault); {
		case !o.known || o.Until != "" || unlimited(o.Fault) != unlimited(s.Fault):
		case od < d && (shorter == nil || od > duration(shorter.Fault)):
			shorter = o
		case od > d && (longer == nil || od < duration(longer.Fault)):
			longer = o
		}
	}
	switch {
	case longer == nil:
		return signature, false
	case shorter != nil:
		return longer.signature, shorter.signature == longer.signature
	}
	return g.baseline, onlyHolds(s.Kind) && longer.signature == g.baseline
}

// onlyHolds reports whether faults of the kind do nothing but hold something: without a duration, they have no effect.
func onlyHolds(k fault.Kind) bool {
	switch k {
	case fault.KindLag, fault.KindLateAnswer, fault.KindLateRequest, fault.KindPause:
		return true
	}
	return false
}

// duration orders the durations of holds: a number of writes ends a hold earlier than the end of all activity does, and a
// time ends it later.
func duration(f fault.Fault) int64 {
	if f.Writes > 0 {
		return int64(f.Writes) - 1<<20
	}
	return int64(f.For)
}

// ran records the run of a single fault.
func (g *guide) ran(f fault.Fault, signature history.Hash, isNew bool) {
	g.similar(f, true).add(isNew)
	for _, s := range g.at[placeOf(f)] {
		if s.Fault == f {
			if s.doubtful {
				g.doubtful.add(isNew)
			}
			g.know(s, signature)
		}
	}
}

// know records the signature of a single fault, and those of others that are redundant because of it.
func (g *guide) know(s *single, signature history.Hash) {
	s.done, s.known, s.signature = true, true, signature
	g.compare(s)
	for _, o := range g.at[placeOf(s.Fault)] {
		if o.done || unlimited(o.Fault) != unlimited(s.Fault) {
			continue
		}
		if signature, redundant := g.isRedundant(o); redundant {
			g.redundant[o.Fault] = true
			g.know(o, signature)
		}
	}
}

// learnBehaviour records whether the behaviour of a run was new, and if so, what can be derived from the run.
func (s *search) learnBehaviour(out *Outcome) {
	signature := out.Run.Signature()
	isNew := !s.signatures[signature]
	if faults := out.Plan.Faults; out.Plan.extended() && len(faults) > 1 {
		s.guide.similar(faults[len(faults)-1], false).add(isNew)
	}
	if faults := out.Plan.Faults; s.guide != nil && len(faults) == 1 && out.Plan.Seed == s.options.Seed && out.Plan.Schedule.IsZero() {
		s.guide.ran(faults[0], signature, isNew)
	}
	if !isNew {
		return
	}
	s.signatures[signature] = true
	s.result.Distinct++
	cells := s.cover(out)
	if out.Plan.extends != nil {
		out.Plan.extends.new++
	}
	if out.Run.Failure != nil {
		return
	}
	s.remember(out)
	if s.guide != nil {
		s.addBase(out, cells)
	}
}
