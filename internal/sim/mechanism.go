package sim

import (
	"slices"

	"github.com/rehearse-k8s/rehearse/fault"
)

// Two failures that violate the same invariant in the same way may have different mechanisms: a controller creates a second pod because its view is old, or
// because two instances act at once. A search that continues after a failure lists both.

// disturbance is what faults of several kinds have in common.
type disturbance int

const (
	oldView      disturbance = iota // the controller observes something late, or not at all
	failedWrite                     // a request fails, or its answer does not arrive
	restart                         // the controller loses its memory
	twoInstances                    // a write of an earlier instance takes effect later, or two instances act at once
	otherUser                       // another user changes an object
)

// disturbanceOf returns what a fault of a kind disturbs.
func disturbanceOf(k fault.Kind) disturbance {
	switch k {
	case fault.KindLag, fault.KindRelist, fault.KindDisconnect, fault.KindLoseEvent, fault.KindRepeatEvent, fault.KindDropBookmark, fault.KindStaleList,
		fault.KindExpiredPage, fault.KindOtherServer, fault.KindPause:
		return oldView
	case fault.KindCrash, fault.KindCrashBefore, fault.KindCrashAfter, fault.KindTimeTravel:
		return restart
	case fault.KindDeposedWrite, fault.KindOverlap:
		return twoInstances
	case fault.KindDelete, fault.KindEvict, fault.KindLabel, fault.KindFinalizer, fault.KindRecreate, fault.KindEdit:
		return otherUser
	}
	return failedWrite
}

// explains reports whether a plan contains all that a failure needs: then a run of the plan that fails in the same way probably has the same mechanism.
func (f *Failure) explains(p Plan) bool {
	needed := f.Plan.Faults
	if f.Shrunk != nil {
		needed = f.Shrunk.Faults
	}
	return !slices.ContainsFunc(needed, func(n fault.Fault) bool {
		return !slices.ContainsFunc(p.Faults, func(o fault.Fault) bool { return disturbanceOf(o.Kind) == disturbanceOf(n.Kind) })
	})
}

// maxMechanisms limits the failures with the same violation that a search lists.
const maxMechanisms = 3

// sameFailure returns the failure among known ones, which have the same violation, that a run of a plan probably repeats; nil: it is another one. One that
// did not reproduce is the same: which faults it needs is not known.
func sameFailure(known []*Failure, p Plan) *Failure {
	for _, f := range known {
		if !f.reproducible() || f.explains(p) {
			return f
		}
	}
	if len(known) >= maxMechanisms {
		return known[0]
	}
	return nil
}
