package history_test

import (
	"testing"

	"github.com/rehearse-k8s/rehearse/history"
)

// TestSignature: a signature has what each actor observed and did, in its own order, and nothing else.
func TestSignature(t *testing.T) {
	object := func(name, uid string) history.Object {
		return history.Object{Resource: "pods", Namespace: "default", Name: name, UID: uid}
	}
	frame := func(actor string, o history.Object, revision int64) history.Step {
		return history.Step{Kind: history.Frame, Actor: actor, Type: "MODIFIED", Object: o, Revision: revision}
	}
	write := func(actor, verb string, o history.Object, before, revision int64) history.Step {
		return history.Step{Kind: history.Request, Actor: actor, Verb: verb, Object: o, Code: 200, Before: before, Revision: revision}
	}
	a, b := object("a", "1"), object("b", "2")
	base := []history.Step{write("user", "create", a, 0, 5), frame("x", a, 5), frame("y", a, 5), write("x", "patch", a, 5, 6), frame("y", a, 6)}
	with := func(change func(s []history.Step) []history.Step) []history.Step {
		return change(append([]history.Step(nil), base...))
	}
	renamed := object("generated-7", "9")
	for name, c := range map[string]struct {
		steps []history.Step
		same  bool
	}{
		"another order of two actors": {with(func(s []history.Step) []history.Step { s[1], s[2] = s[2], s[1]; return s }), true},
		"another time, fault and note": {with(func(s []history.Step) []history.Step {
			s[1].At, s[1].Fault, s[1].Note = 7, "lag resource=pods", "late"
			return append(s, history.Step{Kind: history.Time})
		}), true},
		"another name, UID and revision": {[]history.Step{write("user", "create", renamed, 0, 15), frame("x", renamed, 15), frame("y", renamed, 15), write("x", "patch", renamed, 15, 16), frame("y", renamed, 16)}, true},
		"a bookmark and a watch": {with(func(s []history.Step) []history.Step {
			return append(s, history.Step{Kind: history.Frame, Actor: "y", Type: "BOOKMARK", Object: history.Object{Resource: "pods"}, Revision: 9},
				history.Step{Kind: history.Request, Actor: "y", Verb: "watch", Object: history.Object{Resource: "pods"}, Code: 200})
		}), true},
		"a lease": {with(func(s []history.Step) []history.Step {
			return append(s, write("x", "update", history.Object{Resource: "leases.coordination.k8s.io", Name: "x"}, 1, 2))
		}), true},
		"a second instance": {with(func(s []history.Step) []history.Step { s[3].Actor = "x+"; return s }), true},
		"an event less":     {with(func(s []history.Step) []history.Step { return s[:4] }), false},
		"an older version":  {with(func(s []history.Step) []history.Step { s[4].Revision = 5; return s }), false},
		"another answer":    {with(func(s []history.Step) []history.Step { s[3].Code, s[3].Revision = 409, 0; return s }), false},
		"another verb":      {with(func(s []history.Step) []history.Step { s[3].Verb = "delete"; return s }), false},
		"another object":    {with(func(s []history.Step) []history.Step { s[4].Object = b; return s }), false},
		"a successor with the same name": {with(func(s []history.Step) []history.Step {
			s[4].UID = "3"
			return s
		}), false},
		"the write before its event": {with(func(s []history.Step) []history.Step { s[1], s[3] = s[3], s[1]; return s }), false},
	} {
		have, want := &history.Run{}, &history.Run{}
		for _, s := range base {
			want.Add(s)
		}
		for _, s := range c.steps {
			have.Add(s)
		}
		if same := have.Signature() == want.Signature(); same != c.same {
			t.Errorf("%s: same signature %t, want %t", name, same, c.same)
		}
	}
}
