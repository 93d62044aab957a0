package fault

import (
	"strings"

	"github.com/rehearse-k8s/rehearse/history"
)

// Item describes a request or a watch event for the matching with faults.
type Item struct {
	Class    Class // Event or Call
	Actor    string
	Verb     string // the verb of a request
	Resource string // with its subresource: "pods/status"
	Object   string // namespace/name
	// Type is the type of an event: ADDED, MODIFIED, DELETED, BOOKMARK, ERROR.
	Type string
	// Initial is true for the initial events of a watch, which contain the existing objects, and
	// for the bookmark that ends them.
	Initial bool
	// Write marks requests that write; Versioned those of them that carry a resourceVersion, so that the
	// API rejects them if another user has written the object.
	Write, Versioned bool
	// Older marks lists that permit an older state, and watches that send the initial objects, which client-go
	// replaces by such a list if they fail. Continues marks requests for a further page of a list.
	Older, Continues bool
}

// Allows reports whether a fault of this kind can act on the item at all.
func (k Kind) Allows(i Item) bool {
	switch k {
	case KindDropBookmark:
		return i.Class == Event && i.Type == "BOOKMARK" && !i.Initial
	case KindLag, KindRelist, KindDisconnect:
		return i.Class == Event && i.Type != "ERROR"
	case KindLoseEvent, KindRepeatEvent:
		return i.Class == Event && i.Type != "BOOKMARK" && i.Type != "ERROR" && !i.Initial
	case KindConflict:
		return i.Class == Call && i.Write && (i.Versioned || i.Verb == "update")
	case KindQuota:
		return i.Class == Call && i.Verb == "create" && !strings.Contains(i.Resource, "/")
	case KindStaleList:
		return i.Class == Call && i.Older
	case KindExpiredPage:
		return i.Class == Call && i.Continues
	case KindThrottle, KindError, KindTimeout, KindLateRequest, KindOutage, KindOtherServer:
		return i.Class == Call
	default: // kinds that act at a write
		return i.Class == Call && i.Write
	}
}

// Matches reports whether the item matches all fields of the fault except Nth.
func (f Fault) Matches(i Item) bool {
	return f.Kind.Allows(i) &&
		matchActor(f.Actor, i.Actor) &&
		(f.Verb == "" || f.Verb == i.Verb) &&
		matchResource(f.Resource, i.Resource) &&
		(f.Object == "" || f.Object == i.Object)
}

// matchActor matches actors, with their replicas and instances.
func matchActor(want, have string) bool { return want == "" || history.IsActor(want, have) }

// matchResource matches resources: "pods" includes its subresources, "pods/status" is one of them.
func matchResource(want, have string) bool {
	return want == "" || want == have || strings.HasPrefix(have, want+"/")
}

// Allowed reports whether one of the patterns covers a fault.
func Allowed(patterns []Fault, f Fault) bool {
	for _, p := range patterns {
		if p.covers(f) {
			return true
		}
	}
	return false
}

// Covers reports whether patterns of kind k include faults of kind f.
func (k Kind) Covers(f Kind) bool {
	return k == f || k == KindCrash && (f == KindCrashBefore || f == KindCrashAfter)
}

// covers reports whether the pattern p includes the fault or pattern f.
func (p Fault) covers(f Fault) bool {
	return p.Kind.Covers(f.Kind) &&
		matchActor(p.Actor, f.Actor) &&
		(p.Verb == "" || p.Verb == f.Verb) &&
		matchResource(p.Resource, f.Resource) &&
		(p.Object == "" || p.Object == f.Object) &&
		(p.Target == "" || p.Target == f.Target) &&
		(p.Nth == 0 || p.Nth == f.Nth) &&
		(p.For == 0 || p.For == f.For) &&
		(p.Writes == 0 || p.Writes == f.Writes) &&
		(p.Until == "" || p.Until == f.Until && (p.UntilRevision == 0 || p.UntilRevision == f.UntilRevision))
}

// Plan contains the faults of one run, and counts the matches of each. It is not safe for
// concurrent use.
type Plan struct {
	faults []Fault
	met    []int // the number of items that each fault has matched
}

// NewPlan returns the plan of a run. A fault with Nth 0 acts at the first match.
func NewPlan(faults []Fault) *Plan {
	return &Plan{faults: faults, met: make([]int, len(faults))}
}

// Meet counts an item and returns the faults that act on it, in the order of the plan. The caller
// calls it once per item, when the request or event arrives.
func (p *Plan) Meet(i Item) (hits []Fault) {
	for n := range p.faults {
		f := &p.faults[n]
		if !f.Matches(i) {
			continue
		}
		p.met[n]++
		if p.met[n] == max(f.Nth, 1) {
			hits = append(hits, *f)
		}
	}
	return hits
}

// Unmet returns the faults that have not acted.
func (p *Plan) Unmet() (faults []Fault) {
	for n, f := range p.faults {
		if p.met[n] < max(f.Nth, 1) {
			faults = append(faults, f)
		}
	}
	return faults
}
