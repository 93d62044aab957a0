package sim

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// Candidates returns the single faults to try in a run like this one, the most promising first: at
// each write the faults of writes, at each event on which a later request can depend the faults of
// events. Only faults that patterns allow are returned; pace has the durations to try.
func Candidates(run *history.Run, patterns []fault.Fault, pace Pace) []fault.Fault {
	return faultsOf(byRank(findCandidates(run, patterns, pace, nil)))
}

func faultsOf(found []ranked) []fault.Fault {
	faults := make([]fault.Fault, len(found))
	for n, r := range found {
		faults[n] = r.Fault
	}
	return faults
}

// findCandidates returns the candidates with their ranks and steps, in the order of the run. If wanted is not nil, it returns only those
// at wanted steps.
func findCandidates(run *history.Run, patterns []fault.Fault, pace Pace, wanted func(step int) bool) []ranked {
	c := candidates{run: run, patterns: patterns, pace: pace, ofKind: map[fault.Kind][]fault.Fault{}, last: map[string]int{}, created: map[string]bool{}, written: map[string]int{}, newest: map[string]int64{}, received: map[received]reached{}, watched: map[received]int{}, randomNames: map[string]bool{}, counts: counts{}, untilCrash: untilCrashOf(run), relevant: relevantResources(run), similar: map[place]int{}}
	for _, p := range patterns {
		if p.For != 0 || p.Writes != 0 || p.Until != "" {
			c.lengths = append(c.lengths, fault.Fault{For: p.For, Writes: p.Writes, Until: p.Until, UntilRevision: p.UntilRevision})
		}
	}
	for n := range run.Steps {
		switch s := &run.Steps[n]; s.Kind {
		case history.Start:
			c.controllers = append(c.controllers, s.Actor)
		case history.Request:
			c.last[s.Actor] = n
			if pace.randomNames && s.Verb == "create" && s.Wrote() && !s.Guarded {
				c.randomNames[s.Object.String()] = true
			}
		}
	}
	for n := range run.Steps {
		s := &run.Steps[n]
		c.counts.add(s)
		if s.Wrote() {
			c.written[s.Resource]++
		}
		if n > 0 { // a list is sent before its answer is received
			c.observe(&run.Steps[n-1])
		}
		c.ofStep = len(c.found)
		c.step, c.distance, c.unwanted = n, c.distanceOf(s), wanted != nil && !wanted(n)
		if !slices.Contains(c.controllers, s.Actor) || pace.randomNames && history.Bookkeeping(s.Resource) { // real processes write many of these
			continue
		}
		switch {
		case c.unwanted && !s.IsWrite(), isDeposed(s):
		case s.Kind == history.Frame && s.Reply == "":
			c.atEvent(s)
		case s.Kind == history.Request && s.IsWrite():
			c.atWrite(s)
		case s.Kind == history.Request:
			c.atRead(s)
		}
	}
	if wanted == nil {
		c.ofStep = 0 // the following are at several steps
		for _, p := range patterns {
			c.atNth(p)
		}
	}
	return c.found
}

// existed is in the note of events for objects that existed before the watch.
const existed = "existed"

// ranked is a fault with the step at which it acts, and its rank: a lower one is more promising. kind is the part of the rank
// that its kind and duration contribute. idle: it probably changes nothing.
type ranked struct {
	fault.Fault
	rank, step, kind int
	idle             bool
}

// postpone makes a fault come later that probably changes nothing.
func (r *ranked) postpone() { r.rank, r.idle = r.rank+noDifference, true }

// byRank returns candidates in the order of their ranks.
func byRank(found []ranked) []ranked {
	all := make([]ranked, 0, len(found))
	for _, n := range inOrder(found, func(f *ranked) [3]int { return [3]int{f.rank} }) {
		all = append(all, found[n])
	}
	return all
}

// inOrder returns the indexes of elements in the order of their keys, equal ones in the order of the elements. It sorts indexes, because
// faults are large, and to move each of them several times took longer than to find them.
func inOrder[T any](all []T, key func(*T) [3]int) []int {
	type position struct {
		key   [3]int
		index int
	}
	positions := make([]position, len(all))
	for n := range all {
		positions[n] = position{key(&all[n]), n}
	}
	slices.SortFunc(positions, func(a, b position) int {
		return cmp.Or(a.key[0]-b.key[0], a.key[1]-b.key[1], a.key[2]-b.key[2], a.index-b.index)
	})
	indexes := make([]int, len(all))
	for n, p := range positions {
		indexes[n] = p.index
	}
	return indexes
}

type candidates struct {
	run         *history.Run
	patterns    []fault.Fault
	ofKind      map[fault.Kind][]fault.Fault // the patterns that may allow faults of a kind
	lengths     []fault.Fault                // the lengths of holds that patterns ask for
	pace        Pace
	controllers []string
	last        map[string]int  // the last request of each actor
	created     map[string]bool // objects that controllers created
	randomNames map[string]bool // objects whose names differ between runs
	targets     targets
	counts      counts
	found       []ranked
	ofStep      int              // how many of found are of earlier steps
	written     map[string]int   // the number of writes of each resource up to the step
	newest      map[string]int64 // the revision of the last write of each resource
	received    map[received]reached
	watched     map[received]int // the step of the last watch
	waited      wait             // of the event of the step
	relevant    map[string]bool  // resources, by relevantResources
	step        int              // the step that the candidates are for
	distance    int              // what the step adds to the ranks of its faults
	unwanted    bool             // no candidates are added for the step
	untilCrash  untilCrash
	similar     map[place]int // how many steps there were with the same actor, verb and resource
}

func (c *candidates) add(rank int, f fault.Fault) {
	f.Nth = c.counts.of(f)
	if fault.Allowed(c.patternsOf(f.Kind), f) && !c.isFound(f) {
		r := ranked{Fault: f, rank: rank + c.distance, step: c.step, kind: rank}
		if c.changesNothing(f) {
			r.postpone()
		}
		c.found = append(c.found, r)
	}
}

// isFound reports whether a fault is a candidate of the current step already. It cannot be one of an earlier step,
// because its number differs.
func (c *candidates) isFound(f fault.Fault) bool {
	return slices.ContainsFunc(c.found[c.ofStep:], func(r ranked) bool { return r.Fault == f })
}

// patternsOf returns the patterns that may allow faults of a kind.
func (c *candidates) patternsOf(k fault.Kind) []fault.Fault {
	patterns, known := c.ofKind[k]
	if !known {
		for _, p := range c.patterns {
			if p.Kind.Covers(k) {
				patterns = append(patterns, p)
			}
		}
		c.ofKind[k] = patterns
	}
	return patterns
}

// received identifies what an actor has received of a resource.
type received struct{ actor, resource string }

// reached is the newest revision that an actor has received, and whether a watch has ended since its last list.
type reached struct {
	revision int64
	ended    bool
}

// observe keeps the newest revision of each resource, and the newest that each actor has received, if a watch of it has ended since its last list:
// client-go then asks for a list that is not older. Before its first watch, it accepts any state. It keeps the last watch of each actor, too.
func (c *candidates) observe(s *history.Step) {
	// The record has no step for the writes of some actors, but their events.
	if s.Wrote() || s.Kind == history.Frame && s.Type != "BOOKMARK" && s.Type != "ERROR" {
		c.newest[s.Resource] = max(c.newest[s.Resource], s.Revision)
	}
	switch key := (received{s.Actor, s.Resource}); {
	case s.Kind == history.Request && s.Verb == "watch":
		c.watched[key] = s.N
	case s.Kind == history.Start:
		for k := range c.received {
			if k.actor == s.Actor {
				delete(c.received, k)
			}
		}
	case s.Kind == history.Frame && s.Reply == "", s.Kind == history.Request && s.Verb == "list" && s.Code/100 == 2:
		was := c.received[key]
		c.received[key] = reached{max(was.revision, s.Revision), was.ended && s.Kind == history.Frame}
	case s.Kind == history.Cut:
		c.received[key] = reached{c.received[key].revision, true}
	}
}

// vary adds a fault with each of the lengths of its hold to try, and with those that a pattern asks for: a time or a
// number of writes that is not among lengths, or an order of two kinds.
func (c *candidates) vary(rank int, f fault.Fault, lengths []fault.Fault) {
	if c.unwanted {
		return
	}
	for n, l := range lengths {
		f.For, f.Writes = l.For, l.Writes
		c.add(rank+n, f)
	}
	for _, l := range c.lengths {
		if f.For, f.Writes, f.Until, f.UntilRevision = l.For, l.Writes, l.Until, l.UntilRevision; f.Check() == nil {
			c.add(rank, f)
		}
	}
}

// unheld is the only length of a fault that is tried without a hold, unless a pattern asks for one.
var unheld = []fault.Fault{{}}

// site returns a fault with the actor, verb, resource and object of a step, without a kind or Nth. An
// object whose name the server generated is not named.
func (c *candidates) site(s *history.Step) fault.Fault {
	f := fault.Fault{Actor: s.Actor, Resource: s.Resource}
	if s.Subresource != "" {
		f.Resource += "/" + s.Subresource
	}
	if s.Kind == history.Request {
		f.Verb = s.Verb
	}
	if (s.Verb != "create" || s.Guarded) && !c.randomNames[s.Object.String()] {
		f.Object = s.Key()
	}
	return f
}

func (c *candidates) atEvent(s *history.Step) {
	// No request depends on an event after the last request of its actor.
	if c.last[s.Actor] < s.N || s.Type == "ERROR" { // the error that ends a watch is not counted
		return
	}
	defer c.expectCrash(s.N, len(c.found))
	f := c.site(s)
	if s.Type == "BOOKMARK" {
		if !strings.Contains(s.Note, existed) {
			f.Kind = fault.KindDropBookmark
			c.add(6, f)
		}
		return
	}
	f.Kind = fault.KindLag
	c.waited = c.waitOf(s)
	c.vary(0, f, c.pace.lengthsOf(f.Kind))
	f.Kind = fault.KindRelist
	c.vary(1, f, c.pace.lengthsOf(f.Kind))
	item, _ := itemOf(s)
	for _, k := range [...]fault.Kind{fault.KindDisconnect, fault.KindLoseEvent, fault.KindRepeatEvent} {
		if f.Kind = k; k.Allows(item) { // some do not act on initial events
			c.add(3, f)
		}
	}
}

// expectCrash postpones the faults of an event, from index first on, if a fault terminates the instance that received it before it sends a request
// (all of them: nothing depends on the event), or at its next request (all but the first: this request was usually decided before the event).
func (c *candidates) expectCrash(event, first int) {
	requests, crashes := c.untilCrash.of(event)
	if !crashes || requests > 1 {
		return
	}
	keep := requests == 1
	for n := first; n < len(c.found); n++ {
		switch f := &c.found[n]; {
		case f.idle:
		case keep:
			keep = false
		default:
			f.postpone()
		}
	}
}

// untilCrash has, by step, 1 plus the number of requests that the actor of an event sends until a fault terminates it; 0 if none does.
type untilCrash []int

func (u untilCrash) of(event int) (requests int, crashes bool) { return u[event] - 1, u[event] > 0 }

func untilCrashOf(run *history.Run) untilCrash {
	until := make(untilCrash, len(run.Steps))
	sent := map[string]int{} // the same from here on, by actor
	for n := len(run.Steps) - 1; n >= 0; n-- {
		switch s := &run.Steps[n]; s.Kind {
		case history.Crash:
			kind, _, _ := strings.Cut(s.Fault, " ")
			switch fault.Kind(kind) {
			case "": // it ends by itself
				sent[s.Actor] = 0
			case fault.KindCrashAfter, fault.KindOverlap:
				sent[s.Actor] = 1
			default: // at a request that has no step, or only later
				sent[s.Actor] = 2
			}
		case history.Start:
			sent[s.Actor] = 0
		case history.Request:
			if sent[s.Actor] > 0 {
				sent[s.Actor]++
			}
		case history.Frame:
			until[n] = sent[s.Actor]
		}
	}
	return until
}

func (c *candidates) atWrite(s *history.Step) {
	f := c.site(s)
	at := func(rank int, k fault.Kind) {
		f.Kind = k
		c.vary(rank, f, c.pace.lengthsOf(k))
	}
	at(0, fault.KindCrashAfter)
	at(0, fault.KindLostAnswer)
	at(1, fault.KindCrashBefore)
	if s.Versioned || s.Verb == "update" {
		at(1, fault.KindConflict)
	}
	at(1, fault.KindLateAnswer)
	at(1, fault.KindLateRequest)
	at(2, fault.KindErrorAfter)
	at(2, fault.KindError)
	at(2, fault.KindTimeout)
	if s.Verb == "create" && s.Subresource == "" {
		at(3, fault.KindQuota)
	}
	at(3, fault.KindDeny)
	at(3, fault.KindOutage)
	at(3, fault.KindPartition)
	at(3, fault.KindOtherServer)
	at(3, fault.KindThrottle)
	at(3, fault.KindPause)
	at(2, fault.KindDeposedWrite)
	at(3, fault.KindOverlap)
	if !s.Wrote() || s.Name == "" {
		if !c.pace.randomNames { // a real server cannot serve an older state
			at(4, fault.KindTimeTravel)
		}
		return
	}
	if s.Verb == "create" && s.Subresource == "" { // a binding creates no object
		c.created[s.Object.String()] = true
	}
	// A deleted object is created again only if a controller created it.
	if s.Verb != "delete" && c.created[s.Object.String()] {
		at(2, fault.KindDelete)
		if s.Resource == "pods" && s.Subresource == "" {
			at(4, fault.KindEvict)
		}
	}
	if s.Verb != "delete" {
		at(4, fault.KindLabel)
		at(4, fault.KindFinalizer)
	}
	if !c.pace.randomNames {
		at(4, fault.KindTimeTravel)
	}
	c.atTargets(s)
}

func (c *candidates) atRead(s *history.Step) {
	f := c.site(s)
	for n, k := range [...]fault.Kind{fault.KindError, fault.KindTimeout, fault.KindThrottle} {
		f.Kind = k
		c.vary(4+n, f, unheld)
	}
	f.Kind = fault.KindLateRequest
	c.vary(4, f, c.pace.holds[:2])
	f.Kind = fault.KindOutage
	c.vary(5, f, unheld)
	if s.Continues() {
		f.Kind = fault.KindExpiredPage
		c.add(4, f)
	}
	if older := c.written[s.Resource]; s.Older && older > 0 && s.Fault == "" {
		f.Kind = fault.KindStaleList
		found := len(c.found)
		c.vary(1, f, missedWrites[:min(older, len(missedWrites))])
		if has := c.received[received{s.Actor, s.Resource}]; has.ended && has.revision >= c.newest[s.Resource] {
			for n := found; n < len(c.found); n++ { // the answer cannot be older than what the actor asks for
				c.found[n].postpone()
			}
		}
	}
}
