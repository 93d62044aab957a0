package fault

import "strings"

// Item is a request or a watch event as faults see it.
type Item struct {
	Class    Class // Event or Call
	Actor    string
	Verb     string // of a request
	Resource string // with its subresource: "pods/status"
	Object   string // namespace/name
	// Type of an event: ADDED, MODIFIED, DELETED, BOOKMARK, ERROR.
	Type string
	// Initial marks events that tell what existed when the watch began, and the
	// bookmark that ends them.
	Initial bool
	// Write marks requests that write; Guarded those of them that carry a
	// resourceVersion or UID, and patches.
	Write, Guarded bool
}

// Allows tells whether a fault of this kind could act on the item at all.
func (k Kind) Allows(i Item) bool {
	switch k {
	case KindDropBookmark:
		return i.Class == Event && i.Type == "BOOKMARK" && !i.Initial
	case KindLag, KindRelist, KindDisconnect:
		return i.Class == Event && i.Type != "ERROR"
	case KindLoseEvent, KindRepeatEvent:
		return i.Class == Event && i.Type != "BOOKMARK" && i.Type != "ERROR" && !i.Initial
	case KindConflict:
		return i.Class == Call && i.Write && i.Guarded
	case KindThrottle, KindError, KindTimeout, KindLateRequest:
		return i.Class == Call
	default: // at a write
		return i.Class == Call && i.Write
	}
}

// Matches tells whether the fields of the fault, apart from Nth, fit the item.
func (f Fault) Matches(i Item) bool {
	return f.Kind.Allows(i) &&
		matchActor(f.Actor, i.Actor) &&
		(f.Verb == "" || f.Verb == i.Verb) &&
		matchResource(f.Resource, i.Resource) &&
		(f.Object == "" || f.Object == i.Object)
}

// matchActor: "job" is all of its replicas and instances, "job/1" is one replica,
// "job+" the instance that overlaps another one.
func matchActor(want, have string) bool {
	return want == "" || want == have || strings.HasPrefix(have, want+"/") || strings.HasPrefix(have, want+"+")
}

// matchResource: "pods" is its subresources too, "pods/status" is one.
func matchResource(want, have string) bool {
	return want == "" || want == have || strings.HasPrefix(have, want+"/")
}

// Allowed tells whether a concrete fault lies within one of the patterns.
func Allowed(patterns []Fault, f Fault) bool {
	for _, p := range patterns {
		if p.covers(f) {
			return true
		}
	}
	return false
}

func (k Kind) covers(f Kind) bool {
	return k == f || k == KindCrash && (f == KindCrashBefore || f == KindCrashAfter)
}

// covers tells whether everything f can do, the pattern p can do too.
func (p Fault) covers(f Fault) bool {
	return p.Kind.covers(f.Kind) &&
		matchActor(p.Actor, f.Actor) &&
		(p.Verb == "" || p.Verb == f.Verb) &&
		matchResource(p.Resource, f.Resource) &&
		(p.Object == "" || p.Object == f.Object) &&
		(p.Nth == 0 || p.Nth == f.Nth) &&
		(p.For == 0 || p.For == f.For) &&
		(p.Writes == 0 || p.Writes == f.Writes) &&
		(p.Until == "" || p.Until == f.Until && (p.UntilRevision == 0 || p.UntilRevision == f.UntilRevision))
}

// Plan is the faults of one run, with a count of what each has met. It is not
// safe for use by several goroutines.
type Plan struct {
	faults []Fault
	met    []int
}

// NewPlan makes the plan of a run. A fault with Nth 0 acts at the first match.
func NewPlan(faults []Fault) *Plan {
	return &Plan{faults: faults, met: make([]int, len(faults))}
}

// Meet counts an item, once, when it comes into being, and returns the faults
// that act on it, in the order of the plan.
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
