package sim

import (
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// maxFaults limits the faults of a combination.
const maxFaults = 5

// base is a passing run with new behaviour, from which combinations are derived.
type base struct {
	out *Outcome
	// all are the faults of anywhere, nil until it is called; after are those of afterDeparture, if it was called.
	all, after []fault.Fault
	departed   bool
	// cells is how many cells of the coverage the run reached first.
	cells int
	// origin has the extensions of the plan at new situations; nil if the plan has no fault, or too many.
	origin *origin
	// yield counts the runs that extend it.
	yield
}

// energy of a base: high if it reached new cells of the coverage, has few faults, and was extended rarely or with success.
func (b *base) energy() float64 {
	tries := float64(1 + b.runs)
	return float64(1+b.new) * float64(1+b.cells) / (tries * tries * math.Pow(3, float64(len(b.out.Plan.Faults))))
}

// maxBases limits the number of bases.
const maxBases = 256

// addBase adds a run to the bases. A full list drops the base with the least energy.
func (s *search) addBase(out *Outcome, cells int) {
	g := s.guide
	b := &base{out: out, cells: cells}
	if n := len(out.Plan.Faults); n > 0 && n < maxFaults {
		b.origin = &origin{plan: out.Plan, out: out, steps: len(out.Run.Steps)}
		g.origins = append(g.origins, b.origin)
	}
	if len(g.bases) < maxBases {
		g.bases = append(g.bases, b)
		return
	}
	least := 0
	for n := range g.bases {
		if g.bases[n].energy() < g.bases[least].energy() {
			least = n
		}
	}
	if dropped := g.bases[least].origin; dropped != nil {
		s.drop(dropped)
	}
	g.bases[least] = b
}

// maxDroppedSteps limits the steps of the records that are kept for their extensions alone; a step needs about 1 KB.
const maxDroppedSteps = 1 << 17

// drop keeps the record of a plan that is not a base any more, until its extensions are known: most plans are never extended. If the records have
// too many steps, it finds the extensions of the oldest plan.
func (s *search) drop(o *origin) {
	if o.out == nil {
		return
	}
	g := s.guide
	g.dropped = append(g.dropped, o)
	g.droppedSteps += o.steps
	for g.droppedSteps > maxDroppedSteps {
		g.dropped = slices.DeleteFunc(g.dropped, func(o *origin) bool { return o.out == nil })
		g.droppedSteps = 0
		for _, o := range g.dropped {
			g.droppedSteps += o.steps
		}
		if g.droppedSteps > maxDroppedSteps {
			s.findExtensions(g.dropped[0])
		}
	}
}

// combine returns the next random combination; one without faults if there is none. Three of four extend the base with the most energy by one
// fault, at a step after which that run differs from the one without faults; the fourth extends any base by one or two faults
// anywhere.
func (s *search) combine() Plan {
	s.guide.combinations++
	n := s.guide.combinations
	draw := func(of int, what string) int {
		return fault.Pick(of, s.options.Seed, "several", strconv.Itoa(n), what)
	}
	if len(s.guide.bases) == 0 {
		return Plan{}
	}
	b := s.guide.bases[draw(len(s.guide.bases), "base")]
	anywhere := draw(4, "anywhere") == 0
	if !anywhere {
		for _, other := range s.guide.bases {
			if other.energy() > b.energy() || other.energy() == b.energy() && other.runs < b.runs {
				b = other
			}
		}
	}
	p := Plan{Seed: b.out.Plan.Seed, Faults: slices.Clone(b.out.Plan.Faults), Schedule: b.out.Plan.Schedule, extends: b}
	if len(p.Faults) >= maxFaults {
		p.Faults = slices.Delete(p.Faults, 0, 1)
	}
	if anywhere || len(s.afterDeparture(b)) == 0 {
		more := 1 + draw(2, "more")
		for range max(more, 2-len(p.Faults)) {
			p.Faults = s.guide.withFault(p.Faults, s.anywhere(b), func(of, try int) int { return draw(of, "fault"+strconv.Itoa(len(p.Faults))+"/"+strconv.Itoa(try)) })
		}
		if !slices.ContainsFunc(p.Faults, func(f fault.Fault) bool { return f.Object != "" }) {
			p.Seed += uint64(draw(4, "seed")) // the names of objects depend on the seed
		}
		return p
	}
	// The first ones are the most promising: the product of two random numbers prefers them.
	p.Faults = s.guide.withFault(p.Faults, b.after, func(of, try int) int {
		n := draw(of, "after "+strconv.Itoa(try))
		return n * draw(of, "again "+strconv.Itoa(try)) / of
	})
	return p
}

// withFault adds one of some faults, unless the plan has it already, or one that differs only in its duration. Of a few that
// draw chooses, it prefers those whose class has shown new behaviour.
func (g *guide) withFault(faults, from []fault.Fault, draw func(of, try int) int) []fault.Fault {
	var best *fault.Fault
	least := 0
	for try := range choices {
		if len(from) == 0 {
			break
		}
		f := &from[draw(len(from), try)]
		if slices.ContainsFunc(faults, func(other fault.Fault) bool { return unlimited(other) == unlimited(*f) }) {
			continue
		}
		if penalty := g.similar(*f, false).penalty(); best == nil || penalty < least {
			best, least = f, penalty
		}
	}
	if best == nil {
		return faults
	}
	return append(faults, *best)
}

// choices is how many faults withFault compares.
const choices = 3

// anywhere returns the faults at places of the run of a base, the most promising first.
func (s *search) anywhere(b *base) []fault.Fault {
	if b.all == nil {
		b.all = faultsOf(s.ranked(b.out.Run, b.out.Plan.Faults))
	}
	return b.all
}

// afterDeparture returns those at the steps from which the run of a base differs from the run without faults; none for that run itself.
func (s *search) afterDeparture(b *base) []fault.Fault {
	run, faults := b.out.Run, b.out.Plan.Faults
	if b.departed || len(faults) == 0 {
		return b.after
	}
	b.departed = true
	from, to := s.differs(run)
	found := s.additions(run, faults, func(step int) bool { return step >= from })
	order := inOrder(found, func(f *ranked) [3]int {
		rank := f.rank + bits.Len(uint(f.step-from)/8) - affinity(f.Fault, faults)
		if f.step > to {
			rank += 2
		}
		return [3]int{rank, f.rank}
	})
	for _, n := range order {
		b.after = append(b.after, found[n].Fault)
	}
	return b.after
}

// affinity is how much more promising a fault is together with others because it is about the same resource, or the same object: a
// write that was decided without the information that another fault withholds, a second change of an object.
func affinity(f fault.Fault, others []fault.Fault) (most int) {
	resource := func(f fault.Fault) string {
		name, _, _ := strings.Cut(f.Resource, "/")
		return name
	}
	for _, other := range others {
		switch {
		case f.Object != "" && f.Object == other.Object && resource(f) == resource(other):
			most = max(most, sameObject)
		case resource(f) == resource(other):
			most = max(most, sameResource)
		}
	}
	return most
}

const (
	sameResource = 2
	sameObject   = 3
)

// differs returns the steps between which a run lacks what the run without faults has: from the first that differs to the
// last that a fault of the plan delayed, or to the end of the run if something was lost.
func (s *search) differs(run *history.Run) (from, to int) {
	from, to = len(run.Steps), 0
	if d, departs := run.DepartsFrom(s.result.Baseline); departs {
		from = d.Step
	}
	for n := range run.Steps {
		switch step := &run.Steps[n]; {
		case step.Fault == "":
		case step.Kind == history.Frame || step.Kind == history.Answer:
			from, to = min(from, n), max(to, n)
		default: // a request, a crash: nothing restores what is lost
			return min(from, n), len(run.Steps)
		}
	}
	if to == 0 {
		to = len(run.Steps)
	}
	return from, to
}
