package sim

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// situation is what a controller has just done and learned when it sends a request or receives an event. A fault may have another effect
// in a situation that the run without faults does not have: there the controller runs code that this run does not reach. The names of
// objects do not count, so that a controller with many members has few situations.
type situation struct {
	actor string
	// what is the request or the event: "create configmaps", "ADDED pods".
	what string
	// times is how often the controller has sent this write for this object, up to maxTimes; 0 for an event, for a read, and for a create
	// whose name the API server generates.
	times int
	// last is the last write of the controller, with its result; empty if there is none.
	last string
	// Since that write, the controller has restarted, and has received an event of a deletion.
	restarted, deleted bool
	// behind: when the write was decided, a cache of the controller lacked something.
	behind bool
	// changed is the kind of the last fault by which another user has changed the object; empty if there is none.
	changed fault.Kind
}

// maxTimes is the highest number of equal writes that situations distinguish: many controllers count to three.
const maxTimes = 3

// situationsOf returns the situation of each request and event of a run by the number of its step, without Leases and Events.
func situationsOf(run *history.Run) map[int]situation {
	o := observed{of: map[string]situation{}, times: map[repeated]int{}, changed: map[history.Object]fault.Kind{}, behind: map[int]bool{}}
	for _, d := range invariant.Decisions(run) {
		for _, missing := range d.Behind {
			o.behind[d.Write] = o.behind[d.Write] || missing > 0
		}
	}
	all := make(map[int]situation, len(run.Steps))
	for n := range run.Steps {
		if s := &run.Steps[n]; !history.Bookkeeping(s.Resource) {
			if now, ok := o.add(s); ok {
				all[n] = now
			}
		}
	}
	return all
}

// observed is the state of situationsOf.
type observed struct {
	// of has, for each actor, the parts of a situation that do not depend on the request or event.
	of      map[string]situation
	times   map[repeated]int
	changed map[history.Object]fault.Kind
	behind  map[int]bool
}

// repeated is a write of an actor to an object.
type repeated struct {
	actor, what string
	object      history.Object
}

// add adds a step, and returns its situation if it is a request or an event.
func (o *observed) add(s *history.Step) (now situation, ok bool) {
	actor := actorName(s.Actor)
	next := o.of[actor]
	next.actor = actor
	object := s.Object
	object.UID = ""
	switch s.Kind {
	case history.Start:
		next.restarted = next.last != ""
	case history.Frame:
		now, ok = next, true
		now.what, now.changed = s.Type+" "+s.Resource, o.changed[object]
		next.deleted = next.deleted || s.Type == "DELETED"
	case history.Request:
		if kind, _, _ := strings.Cut(s.Fault, " "); s.Actor == history.OtherUser && s.Wrote() && kind != string(fault.KindConflict) {
			o.changed[object] = fault.Kind(cmp.Or(kind, s.Verb))
		}
		now, ok = next, true
		now.what, now.changed = strings.TrimSuffix(s.Verb+" "+s.Resource+"/"+s.Subresource, "/"), o.changed[object]
		if !s.IsWrite() {
			return now, true
		}
		if s.Verb != "create" || s.Guarded {
			r := repeated{actor, now.what, object}
			o.times[r] = min(o.times[r]+1, maxTimes)
			now.times = o.times[r]
		}
		now.behind = o.behind[s.N]
		next.last, next.restarted, next.deleted = now.what+" "+answered(s), false, false
	}
	o.of[actor] = next
	return now, ok
}

// answered returns the result of a request as its client learned it. Results that few controllers distinguish are the same.
func answered(s *history.Step) string {
	switch {
	case s.Reply == "lost" || s.Reply == "error":
		return "unknown"
	case s.Code/100 == 2:
		return "done"
	case s.Code == 403, s.Code == 404, s.Code == 409, s.Code == 410, s.Code == 422:
		return strconv.Itoa(s.Code)
	}
	return "rejected"
}
