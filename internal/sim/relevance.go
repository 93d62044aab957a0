package sim

import (
	"math/bits"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// The distances of places from what a scenario is about. A rank grows by one with each further duration, and by up to six
// with the kind of fault; so a place far away is tried after all others.
const (
	farAway      = 8  // a resource that neither the user nor a controller under test has written
	furthestAway = 16 // Leases and Events
)

// relevantResources returns the resources that the user and the controllers under test write, without Leases and Events:
// those in the causal cone of what the user does.
func relevantResources(run *history.Run) map[string]bool {
	writers := map[string]bool{history.User: true}
	for _, name := range run.Controllers() {
		writers[name] = true
	}
	resources := map[string]bool{}
	for n := range run.Steps {
		if s := &run.Steps[n]; s.Wrote() && writers[s.Actor] && !history.Bookkeeping(s.Resource) {
			resources[s.Resource] = true
		}
	}
	return resources
}

// distanceOf returns how far a step is from what the scenario is about: it grows with every doubling of similar steps
// before it, and is large for resources that neither the user nor a controller under test writes.
func (c *candidates) distanceOf(s *history.Step) int {
	if history.Bookkeeping(s.Resource) {
		return furthestAway
	}
	p := place{class: fault.Kind(s.Kind), actor: s.Actor, verb: s.Verb, resource: s.Resource + "/" + s.Subresource}
	c.similar[p]++
	distance := bits.Len(uint(c.similar[p]) / 4)
	if !c.relevant[s.Resource] {
		distance += farAway
	}
	return distance
}

// noDifference is what a rank grows by if the fault probably changes nothing that its actor observes or does.
const noDifference = 6

// changesNothing reports whether a hold probably changes nothing, because the actor receives nothing else before it ends:
// no event, no answer to another request, unless it is a consequence of what is held, or because the event was as late without it. For a partition:
// whether it probably has the effect of a timeout, because it blocks no other write. Causes are coarse, so such a fault is not left out: it is tried
// after others.
func (c *candidates) changesNothing(f fault.Fault) bool {
	partition := f.Kind == fault.KindPartition
	if !onlyHolds(f.Kind) && !partition || f.Until != "" || f.Kind == fault.KindPause && isReplica(f.Actor) {
		return false
	}
	if f.Kind == fault.KindLag && c.waited.exceeds(f) {
		return true
	}
	held := &c.run.Steps[c.step]
	depends := map[int]bool{c.step: true}
	acted, restarts := false, false // whether the actor has sent a request because of what is held, or was terminated because of it
	for n := c.step + 1; n < len(c.run.Steps); n++ {
		s := &c.run.Steps[n]
		if s.Kind == history.Time && f.For == 0 || f.For > 0 && s.At > held.At+f.For {
			return true
		}
		for _, cause := range s.Causes {
			depends[n] = depends[n] || depends[cause]
		}
		switch {
		case s.Actor != held.Actor || !s.InSignature():
		case s.Kind == history.Start && restarts:
			depends[n], restarts = true, false
		case depends[n]:
			acted = acted || s.Kind == history.Request
			restarts = restarts || s.Kind == history.Crash
		case partition:
			if s.Kind == history.Request && s.IsWrite() {
				return false
			}
		case s.Kind == history.Frame && f.Kind == fault.KindLag && s.Resource == held.Resource && s.Stream == held.Stream && !acted && !isReplica(f.Actor):
			depends[n] = true // it waits behind the late event, and follows it as it would without the fault
		case s.Kind == history.Frame, s.Kind == history.Request, s.Kind == history.Answer:
			return false
		}
	}
	return true
}

// wait is how long an event waited behind another one, or for its actor, between its arrival and its delivery.
type wait struct {
	writes int
	time   time.Duration
	quiet  bool // nothing else could happen for a while
}

// waitOf returns how long the event of the step has waited. If its write is not in the record, nothing is known about that.
func (c *candidates) waitOf(event *history.Step) wait {
	if len(event.Causes) == 0 {
		return wait{}
	}
	arrived := c.watched[received{event.Actor, event.Resource}]
	for _, cause := range event.Causes {
		arrived = max(arrived, cause)
	}
	w := wait{time: event.At - c.run.Steps[arrived].At}
	for n := arrived + 1; n < event.N; n++ {
		s := &c.run.Steps[n]
		w.quiet = w.quiet || s.Kind == history.Time
		if s.Wrote() && !history.Bookkeeping(s.Resource) { // these end no hold
			w.writes++
		}
	}
	return w
}

// exceeds reports whether a hold of the fault from the arrival of the event on would be over.
func (w wait) exceeds(f fault.Fault) bool {
	switch {
	case f.Writes > 0:
		return w.writes >= f.Writes
	case f.For > 0:
		return w.time >= f.For
	}
	return w.quiet
}
