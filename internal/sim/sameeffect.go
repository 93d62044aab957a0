package sim

import (
	"iter"
	"strings"

	"github.com/rehearse-k8s/rehearse/fault"
)

// A search learns which faults usually have the same effect: a partition of one write and a timeout of it, a short hold and a long one, a
// late request and no fault. Where it has tried one of the two, it tries the other one late.

// comparison is of the runs of two faults that differ only in what they do (withoutPlace); one that does nothing is the run without faults. Its
// outcomes are counted for each actor, verb and resource, and for each actor.
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
	// postponedCost is how much more a fault costs whose signature is expected to be a known one.
	postponedCost = 10
)

// isReplica reports whether an actor is one of several replicas of a controller: another one takes over when it is late.
func isReplica(actor string) bool { return strings.Contains(actor, "/") }

// areUsuallySame reports whether two faults without their places had the same signature in nearly all software in which both were tried
// (docs/design/search.md has the figures): until a search sees a difference, it expects that.
func areUsuallySame(one, other fault.Fault) bool {
	switch one.Kind {
	case fault.KindDeny:
		return other.Kind == fault.KindQuota
	case fault.KindQuota:
		return other.Kind == fault.KindDeny
	case fault.KindPause: // a controller that misses a deadline misses it by any time
		return other.Kind == one.Kind && one.For > 0 && other.For > 0
	case fault.KindDeposedWrite, fault.KindRelist, fault.KindLateAnswer:
		return other.Kind == one.Kind && one.Until == other.Until && one.For == other.For && (one.Writes == 0 || other.Writes == 0)
	}
	return false
}

// placeOf returns a fault without what it does there.
func placeOf(f fault.Fault) fault.Fault {
	return fault.Fault{Actor: f.Actor, Verb: f.Verb, Resource: f.Resource, Object: f.Object, Nth: f.Nth}
}

// comparisons returns the two comparisons that a place counts for: that of its class and that of its actor.
func comparisons(at, one, other fault.Fault) (class, actor comparison) {
	return comparison{at.Actor, at.Verb, at.Resource, one, other}, comparison{actor: at.Actor, one: one, other: other}
}

// compare compares the run of a single fault with that without faults and with those of the other faults at its place.
func (g *guide) compare(s *single) {
	at, effect := placeOf(s.Fault), withoutPlace(s.Fault)
	g.count(at, effect, fault.Fault{}, s.signature == g.baseline)
	for _, o := range g.at[at] {
		if o != s && o.known {
			other := withoutPlace(o.Fault)
			g.count(at, effect, other, s.signature == o.signature)
			g.count(at, other, effect, s.signature == o.signature)
		}
	}
}

// count counts the outcome of a comparison.
func (g *guide) count(at, one, other fault.Fault, same bool) {
	class, actor := comparisons(at, one, other)
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

// isExpected reports whether a fault probably has the effect of no fault, or of one of those that were tried at its place.
func (g *guide) isExpected(f fault.Fault, tried iter.Seq[fault.Fault]) bool {
	at, effect := placeOf(f), withoutPlace(f)
	if g.haveSameEffect(at, effect, fault.Fault{}) {
		return true
	}
	for other := range tried {
		if placeOf(other) == at && g.haveSameEffect(at, effect, withoutPlace(other)) {
			return true
		}
	}
	return false
}

// haveSameEffect reports whether two faults had the same signature wherever both were tried, or nearly.
func (g *guide) haveSameEffect(at, one, other fault.Fault) bool {
	c, a := comparisons(at, one, other)
	class, actor := g.compared[c], g.compared[a]
	if areUsuallySame(one, other) && !isReplica(at.Actor) {
		class.same += sameOfClass
	}
	return class.different == 0 && (class.same >= sameOfClass || class.same > 0 && actor.same >= max(sameOfActor, sameForDifferent*actor.different))
}

// known yields the single faults with known signatures at the place of a fault.
func (g *guide) known(f fault.Fault) iter.Seq[fault.Fault] {
	return func(yield func(fault.Fault) bool) {
		for _, o := range g.at[placeOf(f)] {
			if o.known && !yield(o.Fault) {
				return
			}
		}
	}
}
