package invariant

import (
	"strings"

	"github.com/rehearse-k8s/rehearse/history"
)

// scope is what one cache of an actor contains: a resource, in one namespace or in all, possibly
// restricted by a selector.
type scope struct{ actor, resource, namespace, selector string }

// cache is the revision that one cache of an actor has reached.
type cache struct {
	scope
	reached int64
}

// event is one event as a cache receives it.
type event struct {
	scope
	revision int64
}

// tracker reads a run step by step, and knows which revision each cache has reached.
type tracker struct {
	run *history.Run
	// caches are the caches of an actor, in the order in which they started.
	caches map[string][]*cache
	// streams are the scopes of watch streams, by stream number.
	streams map[int]scope
	// writes are the writes so far that changed an object, by resource, the newest last.
	writes map[string][]int
	// mixed are resources whose writes are not in the order of their revisions.
	mixed map[string]bool
	// delivered are the events that a watch with a selector delivers, at any time of the run.
	delivered map[event]bool
}

func newTracker(run *history.Run) *tracker {
	t := &tracker{run: run, caches: map[string][]*cache{}, streams: map[int]scope{}, writes: map[string][]int{}, mixed: map[string]bool{}, delivered: map[event]bool{}}
	for i := range run.Steps {
		if s := &run.Steps[i]; s.Kind == history.Request && s.Verb == "watch" && s.Stream != 0 {
			t.streams[s.Stream] = scopeOf(s)
		}
	}
	for i := range run.Steps {
		if s := &run.Steps[i]; s.Kind == history.Frame && s.Type != "BOOKMARK" {
			t.delivered[event{t.streamOf(s), s.Revision}] = true
		}
	}
	return t
}

func scopeOf(s *history.Step) scope {
	var selectors []string
	for part := range strings.SplitSeq(s.Query, "&") {
		// The others, such as limit=500, do not restrict what a list contains.
		if strings.HasPrefix(part, "labelSelector=") || strings.HasPrefix(part, "fieldSelector=") {
			selectors = append(selectors, part)
		}
	}
	return scope{s.Actor, s.Resource, s.Namespace, strings.Join(selectors, "&")}
}

// streamOf returns the scope of the stream of a frame. A frame has the namespace of its object, which
// may differ from that of the watch.
func (t *tracker) streamOf(s *history.Step) scope {
	if c, ok := t.streams[s.Stream]; ok {
		return c
	}
	return scope{actor: s.Actor, resource: s.Resource}
}

// observe reads the next step.
func (t *tracker) observe(i int) {
	s := &t.run.Steps[i]
	switch s.Kind {
	case history.Start, history.Crash:
		delete(t.caches, s.Actor) // caches are empty after a restart
	case history.Frame:
		t.reach(t.streamOf(s), s.Revision)
	case history.Answer:
		if len(s.Causes) > 0 && s.Causes[0] < i {
			t.answer(&t.run.Steps[s.Causes[0]])
		}
	case history.Request:
		if s.Reply == "" {
			t.answer(s)
		}
		if s.Wrote() {
			t.wrote(i, s)
		}
	}
}

func (t *tracker) wrote(i int, s *history.Step) {
	earlier := t.writes[s.Resource]
	if n := len(earlier); n > 0 && t.run.Steps[earlier[n-1]].Revision > s.Revision {
		t.mixed[s.Resource] = true
	}
	t.writes[s.Resource] = append(earlier, i)
}

// answer reads an answered list or watch.
func (t *tracker) answer(s *history.Step) {
	if s.Code/100 != 2 {
		return
	}
	switch s.Verb {
	case "watch":
		t.reach(scopeOf(s), 0)
	case "list":
		// A list by a reconcile itself fills no cache, but the reconcile has observed its objects.
		at := s.Revision
		if at == 0 {
			at = s.Truth
		}
		t.reach(scopeOf(s), at)
	}
}

func (t *tracker) reach(c scope, revision int64) {
	for _, have := range t.caches[c.actor] {
		if have.scope == c {
			have.reached = max(have.reached, revision)
			return
		}
	}
	t.caches[c.actor] = append(t.caches[c.actor], &cache{c, revision})
}

// behind returns the newest write, of those that match, that an actor watches and that none of its
// caches has reached.
func (t *tracker) behind(actor string, of func(*history.Step) bool) (write int, lagging cache, ok bool) {
	write = -1
	for resource, lowerBound := range t.lowerBounds(actor) {
		writes := t.writes[resource]
		for n := len(writes) - 1; n >= 0 && writes[n] > write; n-- {
			s := &t.run.Steps[writes[n]]
			if s.Revision <= lowerBound && !t.mixed[resource] {
				break // each cache has reached this write, and so all earlier ones
			}
			if c := t.unseen(actor, s); c != nil && of(s) {
				write, lagging, ok = writes[n], *c, true
				break
			}
		}
	}
	return max(write, 0), lagging, ok
}

// lowerBounds returns, for each resource that an actor watches, the revision that all its caches of
// the resource have reached.
func (t *tracker) lowerBounds(actor string) map[string]int64 {
	bounds := map[string]int64{}
	for _, c := range t.caches[actor] {
		if bound, some := bounds[c.resource]; !some || c.reached < bound {
			bounds[c.resource] = c.reached
		}
	}
	return bounds
}

// unseen returns the last cache of an actor that receives a write, nil if one has received it.
func (t *tracker) unseen(actor string, s *history.Step) (last *cache) {
	for _, c := range t.caches[actor] {
		if !t.covers(c, s) {
			continue
		}
		if c.reached >= s.Revision {
			return nil
		}
		last = c
	}
	return last
}

// covers reports whether a cache receives a write. A step does not show whether an object matches a
// selector, so for a cache with a selector the delivered event decides.
func (t *tracker) covers(c *cache, s *history.Step) bool {
	if c.resource != s.Resource || (c.namespace != "" && c.namespace != s.Namespace) {
		return false
	}
	return c.selector == "" || t.delivered[event{c.scope, s.Revision}]
}
