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
	// writes of the run so far that changed the world, by resource, newest last.
	writes map[string][]int
	// mixed are resources whose writes are not in the order of their revisions.
	mixed map[string]bool
	// comes are the events that some watch with a selector brings, now or later.
	comes map[event]bool
}

func newTracker(run *history.Run) *tracker {
	t := &tracker{run: run, caches: map[string][]*cache{}, streams: map[int]scope{}, writes: map[string][]int{}, mixed: map[string]bool{}, comes: map[event]bool{}}
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
	write = -1
	for resource, floor := range t.floors(actor) {
		writes := t.writes[resource]
		for n := len(writes) - 1; n >= 0 && writes[n] > write; n-- {
			s := &t.run.Steps[writes[n]]
			if s.Revision <= floor && !t.mixed[resource] {
				break // every cache has this one, and so all that came before
			}
			if c := t.unseen(actor, s); c != nil && of(s) {
				write, lagging, ok = writes[n], *c, true
				break
			}
		}
	}
	return max(write, 0), lagging, ok
}

// floors are the resources that an actor watches, and the revision that all its caches of
// each have reached.
func (t *tracker) floors(actor string) map[string]int64 {
	floors := map[string]int64{}
	for _, c := range t.caches[actor] {
		if floor, some := floors[c.resource]; !some || c.reached < floor {
			floors[c.resource] = c.reached
		}
	}
	return floors
}

// unseen is the last cache of an actor that is to learn of a write, if none of them has yet.
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

// covers tells whether a cache is to learn of a write. What a selector lets through
// cannot be told from a step, so there the event itself is the proof.
func (t *tracker) covers(c *cache, s *history.Step) bool {
	if c.resource != s.Resource || (c.namespace != "" && c.namespace != s.Namespace) {
		return false
	}
	return c.selector == "" || t.comes[event{c.scope, s.Revision}]
}
