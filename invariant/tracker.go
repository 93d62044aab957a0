package invariant

import (
	"strings"

	"github.com/rehearse-k8s/rehearse/history"
)

// scope is what one cache of an actor holds: a resource, in a namespace or in all,
// perhaps of one selector.
type scope struct{ actor, resource, namespace, selector string }

// cache is how far one cache of an actor has come.
type cache struct {
	scope
	reached int64
}

// event is one event as some cache is told of it.
type event struct {
	scope
	revision int64
}

// tracker follows a run, step by step, and knows what each cache has reached.
type tracker struct {
	run *history.Run
	// caches of an actor, in the order in which they began.
	caches map[string][]*cache
	// streams are the scopes of watch streams by number.
	streams map[int]scope
	// writes of the run so far that changed the world, newest last.
	writes []int
	// comes are the events that some watch with a selector brings, now or later.
	comes map[event]bool
}

func newTracker(run *history.Run) *tracker {
	t := &tracker{run: run, caches: map[string][]*cache{}, streams: map[int]scope{}, comes: map[event]bool{}}
	for i := range run.Steps {
		if s := &run.Steps[i]; s.Kind == history.Request && s.Verb == "watch" && s.Stream != 0 {
			t.streams[s.Stream] = scopeOf(s)
		}
	}
	for i := range run.Steps {
		if s := &run.Steps[i]; s.Kind == history.Frame && s.Type != "BOOKMARK" {
			t.comes[event{t.streamOf(s), s.Revision}] = true
		}
	}
	return t
}

func scopeOf(s *history.Step) scope {
	var selectors []string
	for part := range strings.SplitSeq(s.Query, "&") {
		// The rest, such as limit=500, is how a list is asked for.
		if strings.HasPrefix(part, "labelSelector=") || strings.HasPrefix(part, "fieldSelector=") {
			selectors = append(selectors, part)
		}
	}
	return scope{s.Actor, s.Resource, s.Namespace, strings.Join(selectors, "&")}
}

// streamOf is the scope of the stream of a frame. Frames carry the namespace of their
// object, which is not that of the watch.
func (t *tracker) streamOf(s *history.Step) scope {
	if c, ok := t.streams[s.Stream]; ok {
		return c
	}
	return scope{actor: s.Actor, resource: s.Resource}
}

// take follows one more step.
func (t *tracker) take(i int) {
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
			t.writes = append(t.writes, i)
		}
	}
}

// answer is what an answered list or watch says about a cache.
func (t *tracker) answer(s *history.Step) {
	if s.Code/100 != 2 {
		return
	}
	switch s.Verb {
	case "watch":
		t.reach(scopeOf(s), 0)
	case "list":
		// A list of a reconcile's own is no cache, but then the reconcile has seen it.
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

// behind finds the newest of some writes that an actor's caches have not reached,
// although it watches that resource. Of several caches one that has it is enough.
func (t *tracker) behind(actor string, of func(*history.Step) bool) (write int, lagging cache, ok bool) {
	for n := len(t.writes) - 1; n >= 0; n-- {
		s := &t.run.Steps[t.writes[n]]
		var last *cache
		fresh := false
		for _, c := range t.caches[actor] {
			if !t.covers(c, s) {
				continue
			}
			last = c
			fresh = fresh || c.reached >= s.Revision
		}
		if last != nil && !fresh && of(s) {
			return t.writes[n], *last, true
		}
	}
	return 0, cache{}, false
}

// covers tells whether a cache is to learn of a write. What a selector lets through
// cannot be told from a step, so there the event itself is the proof.
func (t *tracker) covers(c *cache, s *history.Step) bool {
	if c.resource != s.Resource || (c.namespace != "" && c.namespace != s.Namespace) {
		return false
	}
	return c.selector == "" || t.comes[event{c.scope, s.Revision}]
}
