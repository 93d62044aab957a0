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

// view is the state of one cache of an actor.
type view struct {
	scope
	reached int64   // the revision up to which it has observed its scope
	missed  []int64 // revisions that faults kept from it
	open    bool    // a watch updates it
	behind  []int   // steps of writes within its scope that it has not observed
}

// replay derives the state of each actor's caches, step by step.
type replay struct {
	run     *history.Run
	next    int // the first step that has not been applied
	views   []*view
	streams map[int]*view
	writes  []int // steps that changed an object

	// Collected from the whole run:
	watched   map[scope]bool
	delivered map[scope]map[string]bool // the objects that a watch with a selector ever delivered
	types     map[int64]string          // the event type that a watch without a selector delivered, by revision
}

func newReplay(run *history.Run) *replay {
	p := &replay{
		run: run, streams: map[int]*view{},
		watched: map[scope]bool{}, delivered: map[scope]map[string]bool{}, types: map[int64]string{},
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
			if p.delivered[sc] == nil {
				p.delivered[sc] = map[string]bool{}
			}
			p.delivered[sc][s.Key()] = true
		}
	}
	return p
}

// advance applies all steps before n.
func (p *replay) advance(n int) {
	for ; p.next < n; p.next++ {
		p.apply(&p.run.Steps[p.next])
	}
}

func (p *replay) apply(s *history.Step) {
	if s.Wrote() {
		p.writes = append(p.writes, s.N)
		for _, v := range p.views {
			if p.lacks(v, s) {
				v.behind = append(v.behind, s.N)
			}
		}
	}
	switch s.Kind {
	case history.Start, history.Crash: // a restart empties the caches
		p.views = slices.DeleteFunc(p.views, func(v *view) bool { return v.actor == s.Actor })
	case history.Request:
		if s.Reply == "" {
			p.applyAnswer(s)
		}
	case history.Answer:
		p.applyAnswer(p.requestOf(s))
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
				p.recompute(v)
			}
			return
		}
		v.reached = max(v.reached, s.Revision)
		v.behind = slices.DeleteFunc(v.behind, func(n int) bool { return !p.lacks(v, &p.run.Steps[n]) })
	}
}

// applyAnswer applies the answer to a list or watch. A list fills a cache if the actor also watches the same
// scope, but not at that moment: otherwise it is an independent read.
func (p *replay) applyAnswer(s *history.Step) {
	if s.Code/100 != 2 || (s.Verb != "list" && s.Verb != "watch") {
		return
	}
	sc := scopeOf(s)
	if s.Verb == "watch" {
		v := p.view(sc)
		v.open = true
		p.streams[s.Stream] = v
		if strings.Contains(s.Query, "sendInitialEvents=true") && len(v.missed) > 0 {
			v.missed = nil // the watch begins with a list
			p.recompute(v)
		}
		return
	}
	if !p.watched[sc] {
		return
	}
	if v := p.view(sc); !v.open {
		v.reached, v.missed = s.Revision, nil
		p.recompute(v)
	}
}

// requestOf returns the request that an answer belongs to.
func (p *replay) requestOf(s *history.Step) *history.Step {
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
	p.recompute(v)
	return v
}

// viewsOf returns the caches of an actor.
func (p *replay) viewsOf(actor string) (views []*view) {
	for _, v := range p.views {
		if v.actor == actor {
			views = append(views, v)
		}
	}
	return views
}

// lacks reports whether a write is within a view's scope and the view has not observed it. The record does
// not say what a selector selects. So an object that the watch never delivered counts as not selected.
func (p *replay) lacks(v *view, s *history.Step) bool {
	switch {
	case s.Resource != v.resource || v.namespace != "" && v.namespace != s.Namespace:
	case s.Revision <= v.reached && !slices.Contains(v.missed, s.Revision):
	case v.selector != "" && !p.delivered[v.scope][s.Key()]:
	default:
		return true
	}
	return false
}

// recompute compares a view with all writes so far. Otherwise only new writes are compared, because long runs
// have many writes and many steps at which a view is read.
func (p *replay) recompute(v *view) {
	v.behind = nil
	for _, n := range p.writes {
		if p.lacks(v, &p.run.Steps[n]) {
			v.behind = append(v.behind, n)
		}
	}
}

// unseen returns the writes that a view has not observed.
func (p *replay) unseen(v *view) (steps []*history.Step) {
	for _, n := range v.behind {
		steps = append(steps, &p.run.Steps[n])
	}
	return steps
}

// became returns the effect of a write on its object.
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
	if p.types[s.Revision] == "DELETED" { // its last finalizer was removed
		return "deleted"
	}
	return "changed"
}

// The effects of faults on a delivery. failed is that of an answer in whose place the client received an error.
const (
	late   = "late"
	lost   = "lost"
	twice  = "twice"
	failed = "error"
)

// delivery returns the effect of a fault on the event or answer of a step: late, lost or twice; "" if it
// arrived normally.
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
