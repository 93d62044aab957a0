package sim

import (
	"testing"

	"github.com/rehearse-k8s/rehearse/history"
)

// TestSituations: what makes the situation of a write differ from that of the same write in a run without faults.
func TestSituations(t *testing.T) {
	object := history.Object{Resource: "configmaps", Namespace: "default", Name: "a"}
	start := history.Step{Kind: history.Start, Actor: "c"}
	event := func(eventType string) history.Step {
		return history.Step{Kind: history.Frame, Actor: "c", Type: eventType, Object: object, Stream: 1, Revision: 5}
	}
	write := func(verb string, code int) history.Step {
		return history.Step{Kind: history.Request, Actor: "c", Verb: verb, Object: object, Code: code, Revision: 6, Before: 5, Guarded: true}
	}
	other := func(verb, fault string) history.Step {
		return history.Step{Kind: history.Request, Actor: history.OtherUser, Verb: verb, Object: object, Code: 200, Revision: 6, Before: 5, Fault: fault}
	}
	update, patch := write("update", 200), write("patch", 200)
	last := func(steps ...history.Step) situation {
		run := &history.Run{Header: history.Header{Format: history.Format}}
		for _, s := range append([]history.Step{start}, steps...) {
			run.Add(s)
		}
		now, ok := situationsOf(run)[len(steps)]
		if !ok {
			t.Fatalf("no situation of %+v", steps[len(steps)-1])
		}
		return now
	}
	usual := last(event("ADDED"), update, patch)
	for name, c := range map[string]struct {
		steps []history.Step
		same  bool
	}{
		"another object":               {[]history.Step{event("ADDED"), update, func() history.Step { s := patch; s.Name = "b"; return s }()}, true},
		"an event of a change":         {[]history.Step{event("ADDED"), update, event("MODIFIED"), patch}, true},
		"a read before":                {[]history.Step{event("ADDED"), update, {Kind: history.Request, Actor: "c", Verb: "get", Object: object, Code: 200}, patch}, true},
		"a Lease before":               {[]history.Step{event("ADDED"), update, {Kind: history.Request, Actor: "c", Verb: "update", Object: history.Object{Resource: "leases.coordination.k8s.io", Name: "l"}, Code: 200}, patch}, true},
		"the write of another actor":   {[]history.Step{event("ADDED"), update, {Kind: history.Request, Actor: "kubelet", Verb: "update", Object: object, Code: 200}, patch}, true},
		"a conflict before":            {[]history.Step{event("ADDED"), write("update", 409), patch}, false},
		"an error before":              {[]history.Step{event("ADDED"), write("update", 500), patch}, false},
		"a lost answer before":         {[]history.Step{event("ADDED"), func() history.Step { s := update; s.Reply = "lost"; return s }(), patch}, false},
		"the same write a second time": {[]history.Step{event("ADDED"), patch, update, patch}, false},
		"a restart":                    {[]history.Step{event("ADDED"), update, start, patch}, false},
		"an event of a deletion":       {[]history.Step{event("ADDED"), update, event("DELETED"), patch}, false},
		"a write since a restart":      {[]history.Step{event("ADDED"), start, update, patch}, true},
		"a write since a deletion":     {[]history.Step{event("DELETED"), update, patch}, true},
		"another user's finalizer":     {[]history.Step{event("ADDED"), update, other("patch", "finalizer actor=c resource=configmaps nth=1"), patch}, false},
		"another user's own write":     {[]history.Step{event("ADDED"), update, other("patch", ""), patch}, false},
		"the write behind a conflict":  {[]history.Step{event("ADDED"), update, other("patch", "conflict actor=c resource=configmaps nth=1"), patch}, true},
	} {
		if got := last(c.steps...); (got == usual) != c.same {
			t.Errorf("%s: %+v; without: %+v", name, got, usual)
		}
	}
	if a, b := last(event("ADDED"), write("update", 500), patch), last(event("ADDED"), write("update", 503), patch); a != b {
		t.Errorf("two errors: %+v and %+v", a, b)
	}
	if a, b := last(patch, patch, patch), last(patch, patch, patch, patch); a != b || a.times != maxTimes {
		t.Errorf("the third and the fourth write: %+v and %+v", a, b)
	}
	generated := write("create", 201)
	generated.Guarded = false
	if a, b := last(generated, generated), last(generated, generated, generated); a != b || a.times != 0 {
		t.Errorf("creates with generated names: %+v and %+v", a, b)
	}
}

// TestBehindSituation: a write that was decided while a cache lacked another write is in a situation of its own.
func TestBehindSituation(t *testing.T) {
	object := history.Object{Resource: "configmaps", Namespace: "default", Name: "a"}
	run := func(late bool) *history.Run {
		r := &history.Run{Header: history.Header{Format: history.Format}}
		r.Add(history.Step{Kind: history.Start, Actor: "c"})
		r.Add(history.Step{Kind: history.Request, Actor: "c", Verb: "list", Object: history.Object{Resource: "configmaps"}, Code: 200, Revision: 4, Truth: 4, Causes: []int{0}})
		r.Add(history.Step{Kind: history.Request, Actor: "c", Verb: "watch", Object: history.Object{Resource: "configmaps"}, Code: 200, Revision: 4, Truth: 4, Stream: 1, Causes: []int{1}})
		r.Add(history.Step{Kind: history.Request, Actor: "user", Verb: "create", Object: object, Code: 201, Revision: 5, Truth: 5})
		frame := history.Step{Kind: history.Frame, Actor: "c", Type: "ADDED", Object: object, Stream: 1, Revision: 5, Truth: 5, Causes: []int{3}}
		if !late {
			r.Add(frame)
		}
		secret := history.Object{Resource: "secrets", Namespace: "default", Name: "s"}
		event := r.Add(history.Step{Kind: history.Frame, Actor: "c", Type: "MODIFIED", Object: secret, Stream: 2, Revision: 3, Truth: 5, Causes: []int{0}})
		r.Add(history.Step{Kind: history.Request, Actor: "c", Verb: "patch", Object: secret, Code: 200, Revision: 6, Before: 3, Truth: 6, Causes: []int{event.N}})
		if late {
			r.Add(frame)
		}
		return r
	}
	if now := situationsOf(run(false))[6]; now.behind {
		t.Errorf("with the event: %+v", now)
	}
	if now := situationsOf(run(true))[5]; !now.behind || now.what != "patch secrets" {
		t.Errorf("without the event: %+v", now)
	}
}
