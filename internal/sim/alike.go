package sim

import "github.com/rehearse-k8s/rehearse/fault"

// A search learns which effects (withoutPlace) come to the same: a partition of one write and a timeout of it, a short hold and a long one, a
// late request and no fault. At the places where it has tried only one of the two, it expects the same and tries the other one late.

// comparison is of two effects at the same place; no effect is the run without faults. Its outcomes are counted for each actor, verb and
// resource, and for each actor.
type comparison struct {
	actor, verb, resource string
	one, other            fault.Fault
}

// outcomes counts the places at which the runs of two single faults had the same signature, and those at which they had not.
type outcomes struct{ same, different int }

const (
	// sameOfClass is at how many places with the same actor, verb and resource two effects must have had the same signature, and at none another
	// one, until the search expects that of the other such places.
	sameOfClass = 2
	// sameOfActor is how many such places of any verb and resource of the actor replace the second one. One in sameForDifferent of them may have had
	// another signature.
	sameOfActor, sameForDifferent = 3, 4
	// expectedCost is how much more a fault costs whose run is expected to be a known one.
	expectedCost = 10
)

// whereOf returns a fault without what it does there.
func whereOf(f fault.Fault) fault.Fault {
	return fault.Fault{Actor: f.Actor, Verb: f.Verb, Resource: f.Resource, Object: f.Object, Nth: f.Nth}
}

// comparisons returns the two comparisons that a place counts for: that of its class and that of its actor.
func comparisons(where, one, other fault.Fault) (class, actor comparison) {
	return comparison{where.Actor, where.Verb, where.Resource, one, other}, comparison{actor: where.Actor, one: one, other: other}
}

// compare compares the run of a single fault with that without faults and with those of the other faults at its place.
func (g *guide) compare(s *single) {
	where, effect := whereOf(s.Fault), withoutPlace(s.Fault)
	g.count(where, effect, fault.Fault{}, s.signature == g.baseline)
	for _, o := range g.places[where] {
		if o != s && o.known {
			other := withoutPlace(o.Fault)
			g.count(where, effect, other, s.signature == o.signature)
			g.count(where, other, effect, s.signature == o.signature)
		}
	}
}

// count counts the outcome of a comparison.
func (g *guide) count(where, one, other fault.Fault, same bool) {
	class, actor := comparisons(where, one, other)
	for _, c := range []comparison{class, actor} {
		o := g.compared[c]
		if same {
			o.same++
		} else {
			o.different++
		}
		g.compared[c] = o
	}
}

// expects reports whether a fault probably has the run of the same plan with another fault at that place, of those that were tried, or without one.
func (g *guide) expects(f fault.Fault, tried func(yield func(fault.Fault) bool)) bool {
	where, effect := whereOf(f), withoutPlace(f)
	if g.comeToTheSame(where, effect, fault.Fault{}) {
		return true
	}
	for other := range tried {
		if whereOf(other) == where && g.comeToTheSame(where, effect, withoutPlace(other)) {
			return true
		}
	}
	return false
}

// comeToTheSame reports whether two effects had the same signature wherever both were tried, or nearly.
func (g *guide) comeToTheSame(where, one, other fault.Fault) bool {
	c, a := comparisons(where, one, other)
	class, actor := g.compared[c], g.compared[a]
	return class.different == 0 && (class.same >= sameOfClass || class.same > 0 && actor.same >= max(sameOfActor, sameForDifferent*actor.different))
}

// known yields the single faults with known runs at the place of a fault.
func (g *guide) known(f fault.Fault) func(yield func(fault.Fault) bool) {
	return func(yield func(fault.Fault) bool) {
		for _, o := range g.places[whereOf(f)] {
			if o.known && !yield(o.Fault) {
				return
			}
		}
	}
}
