package report

import (
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// scope is what a list or watch selects.
type scope struct {
	actor, resource, namespace, selector string
}

func scopeOf(s *history.Step) scope {
	var selectors []string
	for _, p := range strings.Split(s.Query, "&") {
		if strings.HasPrefix(p, "labelSelector=") || strings.HasPrefix(p, "fieldSelector=") {
			selectors = append(selectors, p)
		}
	}
	return scope{actor: s.Actor, resource: s.Resource, namespace: s.Namespace, selector: strings.Join(selectors, "&")}
}

// view is one cache of an actor: what it has been told of a scope.
type view struct {
	scope
	reached int64   // the revision up to which it was told
	missed  []int64 // revisions that it was never told
	open    bool    // a watch keeps it fresh
	behind  []int   // writes within its scope that it has not been told of
}

// replay derives from the steps of a run what each actor believed after each.
type replay struct {
	run     *history.Run
	next    int // the first step that has not been taken in
	views   []*view
	streams map[int]*view
	writes  []int // steps that changed the world

	// Known with hindsight, from the whole run:
	watched map[scope]bool
	told    map[scope]map[string]bool // the objects that a watch with a selector ever told of
	types   map[int64]string          // what watches without a selector said of a revision
}

func newReplay(run *history.Run) *replay {
	p := &replay{
		run: run, streams: map[int]*view{},
		watched: map[scope]bool{}, told: map[scope]map[string]bool{}, types: map[int64]string{},
	}
	streams := map[int]scope{}
	for i := range run.Steps {
		switch s := &run.Steps[i]; {
		case s.Kind == history.Request && s.Verb == "watch":
			sc := scopeOf(s)
			p.watched[sc] = true
			streams[s.Stream] = sc
		case s.Kind == history.Frame && s.Revision != 0:
			sc := streams[s.Stream]
			if sc.selector == "" {
				p.types[s.Revision] = s.Type
				continue
			}
			if p.told[sc] == nil {
				p.told[sc] = map[string]bool{}
			}
			p.told[sc][s.Key()] = true
		}
	}
	return p
}

// to takes in all steps before n.
func (p *replay) to(n int) {
	for ; p.next < n; p.next++ {
		p.take(&p.run.Steps[p.next])
	}
}

func (p *replay) take(s *history.Step) {
	if s.Wrote() {
		p.writes = append(p.writes, s.N)
		for _, v := range p.views {
			if p.blindTo(v, s) {
				v.behind = append(v.behind, s.N)
			}
		}
	}
	switch s.Kind {
	case history.Start, history.Crash: // empty caches
		p.views = slices.DeleteFunc(p.views, func(v *view) bool { return v.actor == s.Actor })
	case history.Request:
		if s.Reply == "" {
			p.answered(s)
		}
	case history.Answer:
		p.answered(p.question(s))
	case history.Cut:
		if v := p.streams[s.Stream]; v != nil {
			v.open = false
		}
	case history.Frame:
		v := p.streams[s.Stream]
		if v == nil {
			v = p.view(scope{actor: s.Actor, resource: s.Resource})
			v.open = true
			p.streams[s.Stream] = v
		}
		if delivery(s) == lost {
			if s.Type != "BOOKMARK" {
				v.missed = append(v.missed, s.Revision)
				p.compare(v)
			}
			return
		}
		v.reached = max(v.reached, s.Revision)
		v.behind = slices.DeleteFunc(v.behind, func(n int) bool { return !p.blindTo(v, &p.run.Steps[n]) })
	}
}

// answered takes in the answer to a list or watch. A list is believed to fill a
// cache if the actor watches the same, but not at that moment: then it is a read
// of its own.
func (p *replay) answered(s *history.Step) {
	if s.Code/100 != 2 || (s.Verb != "list" && s.Verb != "watch") {
		return
	}
	sc := scopeOf(s)
	if s.Verb == "watch" {
		v := p.view(sc)
		v.open = true
		p.streams[s.Stream] = v
		return
	}
	if !p.watched[sc] {
		return
	}
	if v := p.view(sc); !v.open {
		v.reached, v.missed = s.Revision, nil
		p.compare(v)
	}
}

// question is the request that an answer belongs to.
func (p *replay) question(s *history.Step) *history.Step {
	for _, c := range s.Causes {
		if r := &p.run.Steps[c]; r.Kind == history.Request && r.Actor == s.Actor && (s.Verb == "" || s.Verb == r.Verb) {
			return r
		}
	}
	return s
}

func (p *replay) view(sc scope) *view {
	for _, v := range p.views {
		if v.scope == sc {
			return v
		}
	}
	v := &view{scope: sc}
	p.views = append(p.views, v)
	p.compare(v)
	return v
}

// of returns the caches of an actor.
func (p *replay) of(actor string) (views []*view) {
	for _, v := range p.views {
		if v.actor == actor {
			views = append(views, v)
		}
	}
	return views
}

// blindTo tells whether a write is within a view's scope and the view has not been
// told of it. Of a selector only the effect is known, so what its watch never told of
// at all counts as not selected.
func (p *replay) blindTo(v *view, s *history.Step) bool {
	switch {
	case s.Resource != v.resource || v.namespace != "" && v.namespace != s.Namespace:
	case s.Revision <= v.reached && !slices.Contains(v.missed, s.Revision):
	case v.selector != "" && !p.told[v.scope][s.Key()]:
	default:
		return true
	}
	return false
}

// compare holds a view against all writes so far. In between only what is new is
// looked at: long runs have many writes, and many steps at which somebody asks.
func (p *replay) compare(v *view) {
	v.behind = nil
	for _, n := range p.writes {
		if p.blindTo(v, &p.run.Steps[n]) {
			v.behind = append(v.behind, n)
		}
	}
}

// unseen are the writes that a view has not been told of.
func (p *replay) unseen(v *view) (steps []*history.Step) {
	for _, n := range v.behind {
		steps = append(steps, &p.run.Steps[n])
	}
	return steps
}

// became says what a write made of its object.
func (p *replay) became(s *history.Step) string {
	switch s.Verb {
	case "create":
		if s.Subresource == "" {
			return "created"
		}
	case "delete":
		if p.types[s.Revision] == "MODIFIED" {
			return "terminating"
		}
		return "deleted"
	case "deletecollection":
		return "deleted"
	}
	if p.types[s.Revision] == "DELETED" { // its last finalizer went
		return "deleted"
	}
	return "changed"
}

// What a fault made of a delivery.
const (
	late  = "late"
	lost  = "lost"
	twice = "twice"
)

// delivery says what a fault made of the event or answer of a step: late, lost,
// twice; "" if it arrived as it should.
func delivery(s *history.Step) string {
	if s.Reply != "" {
		return s.Reply
	}
	kind, _, _ := strings.Cut(s.Fault, " ")
	switch fault.Kind(kind) {
	case fault.KindLag, fault.KindLateAnswer, fault.KindLateRequest, fault.KindPause:
		return late
	case fault.KindLoseEvent, fault.KindDropBookmark, fault.KindLostAnswer:
		return lost
	case fault.KindRepeatEvent:
		return twice
	}
	return ""
}
