package invariant_test

import (
	"testing"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/viewtest"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// named is a Pod with a fixed name, of which several exist one after the other.
func named(uid string) history.Object {
	return history.Object{Resource: "pods", Namespace: "default", Name: "a", UID: uid}
}

// created adds the create of a Pod.
func created(s *viewtest.Script, actor, uid string) int {
	return s.Add(history.Step{Kind: history.Request, Actor: actor, Verb: "create", Code: 201, Revision: s.Revision + 1, Guarded: true, Object: named(uid)})
}

// again deletes the Pod and creates another one.
func again(s *viewtest.Script, uid string) int {
	s.Add(history.Step{Kind: history.Request, Actor: "user", Verb: "delete", Code: 200, Before: s.Revision, Revision: s.Revision + 1, Object: named("")})
	return created(s, "user", uid)
}

// deletes adds a delete by the controller, with an answer that has no UID and no revision.
func deletes(s *viewtest.Script, guarded bool) {
	s.Add(history.Step{Kind: history.Request, Actor: "c", Verb: "delete", Code: 200, Guarded: guarded, Object: named("")})
}

// TestNoSuccessorDeleted: a controller must not delete an object by its name alone if it has observed only an earlier one.
func TestNoSuccessorDeleted(t *testing.T) {
	const violated = "c deleted pods default/a, which user had created at step 6 and c had not observed; the pod that it had observed was an earlier one of that name (step 7)"
	for name, c := range map[string]struct {
		play func(s *viewtest.Script)
		want string
	}{
		"the successor": {func(s *viewtest.Script) {
			s.Frame(1, created(s, "user", "1"))
			again(s, "2")
			deletes(s, false)
		}, violated},
		"with a precondition": {func(s *viewtest.Script) {
			s.Frame(1, created(s, "user", "1"))
			again(s, "2")
			deletes(s, true)
		}, ""},
		"the object that it observed": {func(s *viewtest.Script) {
			s.Frame(1, created(s, "user", "1"))
			deletes(s, false)
		}, ""},
		"a successor that it observed": {func(s *viewtest.Script) {
			s.Frame(1, created(s, "user", "1"))
			s.Frame(1, again(s, "2"))
			deletes(s, false)
		}, ""},
		"a successor whose event came before an older one": {func(s *viewtest.Script) {
			first := created(s, "user", "1")
			s.Frame(1, again(s, "2"))
			s.Frame(1, first)
			deletes(s, false)
		}, ""},
		"nothing observed under that name": {func(s *viewtest.Script) {
			created(s, "user", "1")
			again(s, "2")
			deletes(s, false)
		}, ""},
		"it observed that the earlier one is gone": {func(s *viewtest.Script) {
			first := created(s, "user", "1")
			s.Frame(1, first)
			again(s, "2")
			s.Add(history.Step{Kind: history.Frame, Actor: "c", Stream: 1, Type: "DELETED", Object: named("1"), Revision: s.Revision}, first)
			deletes(s, false)
		}, ""},
		"a get has shown it": {func(s *viewtest.Script) {
			s.Frame(1, created(s, "user", "1"))
			again(s, "2")
			s.Add(history.Step{Kind: history.Request, Actor: "c", Verb: "get", Code: 200, Revision: s.Revision, Object: named("2")})
			deletes(s, false)
		}, ""},
		"a get has shown nothing": {func(s *viewtest.Script) {
			s.Frame(1, created(s, "user", "1"))
			s.Add(history.Step{Kind: history.Request, Actor: "c", Verb: "get", Code: 404, Object: named("")})
			again(s, "2")
			deletes(s, false)
		}, ""},
		"a list has shown it": {func(s *viewtest.Script) {
			s.Frame(1, created(s, "user", "1"))
			again(s, "2")
			s.Add(history.Step{Kind: history.Request, Actor: "c", Verb: "list", Code: 200, Revision: s.Revision, Object: history.Object{Resource: "pods"}})
			deletes(s, false)
		}, ""},
		"a list of another namespace": {func(s *viewtest.Script) {
			s.Frame(1, created(s, "user", "1"))
			again(s, "2")
			s.Add(history.Step{Kind: history.Request, Actor: "c", Verb: "list", Code: 200, Revision: s.Revision, Object: history.Object{Resource: "pods", Namespace: "other"}})
			deletes(s, false)
		}, "was an earlier one of that name (step 8)"},
		"after a restart": {func(s *viewtest.Script) {
			s.Frame(1, created(s, "user", "1"))
			s.Add(history.Step{Kind: history.Crash, Actor: "c"})
			s.Add(history.Step{Kind: history.Start, Actor: "c"})
			again(s, "2")
			deletes(s, false)
		}, ""},
		"the event of the earlier one was lost": {func(s *viewtest.Script) {
			s.Record.Steps[s.Frame(1, created(s, "user", "1"))].Reply = "lost"
			again(s, "2")
			deletes(s, false)
		}, ""},
		"the answer to a patch has shown it": {func(s *viewtest.Script) {
			s.Frame(1, created(s, "user", "1"))
			again(s, "2")
			s.Add(history.Step{Kind: history.Request, Actor: "c", Verb: "patch", Code: 200, Before: s.Revision, Revision: s.Revision + 1, Object: named("2")})
			deletes(s, false)
		}, ""},
		"another controller created it": {func(s *viewtest.Script) {
			s.Frame(1, created(s, "d", "1"))
			s.Add(history.Step{Kind: history.Request, Actor: "d", Verb: "delete", Code: 200, Object: named("")})
			created(s, "d", "2")
			deletes(s, false)
		}, ""},
		"the delete was rejected": {func(s *viewtest.Script) {
			s.Frame(1, created(s, "user", "1"))
			again(s, "2")
			s.Add(history.Step{Kind: history.Request, Actor: "c", Verb: "delete", Code: 403, Object: named("")})
		}, ""},
		"a user deletes it": {func(s *viewtest.Script) {
			s.Frame(1, created(s, "user", "1"))
			again(s, "2")
			again(s, "3")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := viewtest.NewScript()
			c.play(s)
			viewtest.Check(t, invariant.NoSuccessorDeleted(), s, c.want)
		})
	}
}

// TestNoPredecessorState: the last write to an object must be meant for that object.
func TestNoPredecessorState(t *testing.T) {
	patches := func(s *viewtest.Script, actor, subresource string, guarded bool) {
		s.Add(history.Step{Kind: history.Request, Actor: actor, Verb: "patch", Code: 200, Before: s.Revision, Revision: s.Revision + 1, Guarded: guarded, Subresource: subresource, Object: named("2")})
	}
	for name, c := range map[string]struct {
		play func(s *viewtest.Script)
		want string
	}{
		"a patch that was meant for the earlier one": {func(s *viewtest.Script) { patches(s, "c", "status", false) },
			"c wrote it (step 7) before it had observed it: it had observed only an earlier pod of that name"},
		"with a precondition":    {func(s *viewtest.Script) { patches(s, "c", "status", true) }, ""},
		"of another subresource": {func(s *viewtest.Script) { patches(s, "c", "", false) }, ""},
		"and the same again": {func(s *viewtest.Script) { patches(s, "c", "status", false); patches(s, "c", "status", false) },
			"c wrote it (step 8) before it had observed it"},
		"and a later one": {func(s *viewtest.Script) {
			patches(s, "c", "status", false)
			s.Frame(1, len(s.Record.Steps)-1)
			patches(s, "c", "status", false)
		}, ""},
		"and one of another user": {func(s *viewtest.Script) { patches(s, "c", "status", false); patches(s, "user", "status", false) }, ""},
		"by a user":               {func(s *viewtest.Script) { patches(s, "user", "status", false) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := viewtest.NewScript()
			s.Frame(1, created(s, "user", "1"))
			again(s, "2")
			c.play(s)
			viewtest.Check(t, invariant.NoPredecessorState("pods", "default", "a", "status"), s, c.want)
		})
	}
}
