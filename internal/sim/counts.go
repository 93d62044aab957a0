package sim

import (
	"iter"
	"strings"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// counts counts how often each place occurred at which a fault can act, as fault.Plan does:
// bookmarks do not count for a fault that acts on objects, and a request to pods/status counts for
// pods as well.
type counts map[place]int

// place identifies where faults of a class act, apart from their Nth. Fields may be empty.
type place struct {
	class                         fault.Kind // stands for all kinds that act on the same items
	actor, verb, resource, object string
}

// classes has one kind for each set of kinds that act on the same items.
var classes = [...]fault.Kind{fault.KindLag, fault.KindLoseEvent, fault.KindDropBookmark, fault.KindConflict, fault.KindQuota, fault.KindStaleList, fault.KindExpiredPage, fault.KindError, fault.KindCrashAfter}

func classOf(k fault.Kind) fault.Kind {
	switch k {
	case fault.KindLag, fault.KindRelist, fault.KindDisconnect:
		return fault.KindLag
	case fault.KindLoseEvent, fault.KindRepeatEvent:
		return fault.KindLoseEvent
	case fault.KindDropBookmark, fault.KindConflict, fault.KindQuota, fault.KindStaleList, fault.KindExpiredPage:
		return k
	case fault.KindThrottle, fault.KindError, fault.KindTimeout, fault.KindLateRequest, fault.KindOutage, fault.KindOtherServer:
		return fault.KindError
	}
	return fault.KindCrashAfter
}

// itemOf returns the request or event of a step; ok is false for any other step.
func itemOf(s *history.Step) (item fault.Item, ok bool) {
	item = fault.Item{Class: fault.Call, Actor: s.Actor, Verb: s.Verb, Resource: s.Resource, Object: s.Key()}
	switch s.Kind {
	case history.Request:
		item.Write = s.IsWrite()
		item.Versioned, item.Older, item.Continues = s.Versioned, s.Older, s.Continues()
		if s.Subresource != "" {
			item.Resource += "/" + s.Subresource
		}
	case history.Frame:
		item.Class, item.Verb, item.Type = fault.Event, "", s.Type
		item.Initial = strings.Contains(s.Note, existed)
	default:
		return item, false
	}
	return item, true
}

// arrivals yields the requests and events that faults count at a step, and whether the step is of the item: those that have no step of their own
// come before it, and the write of a deposed leader arrived when the leader was terminated.
func arrivals(s *history.Step) iter.Seq2[fault.Item, bool] {
	return func(yield func(fault.Item, bool) bool) {
		for n := range s.Unrecorded {
			without := s.Unrecorded[n].Step()
			if item, ok := itemOf(&without); ok && !yield(item, false) {
				return
			}
		}
		if item, ok := itemOf(s); ok && !isDeposed(s) {
			yield(item, true)
		}
	}
}

// isDeposed reports whether a request is that of an instance that a fault had terminated: no other fault acts on it.
func isDeposed(s *history.Step) bool {
	kind, _, _ := strings.Cut(s.Fault, " ")
	return s.Kind == history.Request && fault.Kind(kind) == fault.KindDeposedWrite
}

// add counts what arrives at a step.
func (c counts) add(s *history.Step) {
	for item := range arrivals(s) {
		for c.count(item); strings.HasSuffix(item.Actor, "+"); { // a fault of the first instance acts on the second one too
			item.Actor = strings.TrimSuffix(item.Actor, "+")
			c.count(item)
		}
	}
}

// count counts an item at each place that includes it, for its own actor.
func (c counts) count(item fault.Item) {
	resource, subresource, _ := strings.Cut(item.Resource, "/")
	for _, class := range classes {
		if !class.Allows(item) {
			continue
		}
		p := place{class, item.Actor, item.Verb, item.Resource, ""}
		c[p]++
		if item.Object != "" {
			p.object = item.Object
			c[p]++
		}
		if subresource != "" {
			p.resource = resource
			c[p]++
			if p.object != "" {
				p.object = ""
				c[p]++
			}
		}
	}
}

// of returns how often the place of a fault has occurred.
func (c counts) of(f fault.Fault) int {
	return c[place{classOf(f.Kind), f.Actor, f.Verb, f.Resource, f.Object}]
}
