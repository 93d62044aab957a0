package sim

import (
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

// add counts a step.
func (c counts) add(s *history.Step) {
	item, ok := itemOf(s)
	if !ok {
		return
	}
	for _, class := range classes {
		if !class.Allows(item) {
			continue
		}
		p := place{class, s.Actor, item.Verb, item.Resource, ""}
		c[p]++
		if item.Object != "" {
			p.object = item.Object
			c[p]++
		}
		if s.Subresource != "" && s.Kind == history.Request {
			p.resource = s.Resource
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
