package invariant_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/viewtest"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/invariant/cloneset"
	"github.com/rehearse-k8s/rehearse/invariant/job"
)

func deletion(actor, resource, name, uid string, at time.Duration) history.Step {
	return history.Step{Kind: history.Request, At: at, Actor: actor, Verb: "delete", Code: 200, Before: 1, Revision: 99,
		Object: history.Object{Resource: resource, Namespace: "default", Name: name, UID: uid}}
}

func TestStaleWrites(t *testing.T) {
	for name, c := range map[string]struct {
		play  func(s *viewtest.Script)
		stale string // the stale writes, as step<own, with ! for accepted
		lags  bool   // whether the cache lagged behind any actor's write
	}{
		"its own write has been observed": {func(s *viewtest.Script) {
			begin := s.Frame(1, s.Write("user", "pods", "a", true, 0))
			own := s.Write("c", "jobs.batch", "j", true, begin)
			s.Write("c", "pods", "b", false, s.Frame(2, own))
		}, "", false},
		"its own write has not been observed": {func(s *viewtest.Script) {
			begin := s.Frame(1, s.Write("user", "pods", "a", true, 0))
			s.Write("c", "jobs.batch", "j", true, begin)
			again := s.Frame(1, s.Write("user", "pods", "a", true, 0))
			s.Write("c", "pods", "b", false, again)
		}, "8<5!", true},
		"the renewal of a lease": {func(s *viewtest.Script) {
			begin := s.Frame(1, s.Write("user", "pods", "a", true, 0))
			s.Write("c", "jobs.batch", "j", true, begin)
			again := s.Frame(1, s.Write("user", "pods", "a", true, 0))
			s.Write("c", "leases.coordination.k8s.io", "l", false, again)
		}, "", true},
		"the same, with a precondition": {func(s *viewtest.Script) {
			begin := s.Frame(1, s.Write("user", "pods", "a", true, 0))
			s.Write("c", "jobs.batch", "j", true, begin)
			again := s.Frame(1, s.Write("user", "pods", "a", true, 0))
			s.Write("c", "pods", "b", true, again)
		}, "8<5", true},
		"two writes of one reconcile": {func(s *viewtest.Script) {
			begin := s.Frame(1, s.Write("user", "pods", "a", true, 0))
			first := s.Write("c", "jobs.batch", "j", true, begin)
			s.Write("c", "pods", "b", false, first)
		}, "", false},
		"two writes of one reconcile, the answer delayed": {func(s *viewtest.Script) {
			begin := s.Frame(1, s.Write("user", "pods", "a", true, 0))
			first := s.Write("c", "jobs.batch", "j", true, begin)
			s.Record.Steps[first].Reply = "late"
			answer := s.Add(history.Step{Kind: history.Answer, Actor: "c"}, first)
			s.Write("c", "pods", "b", false, answer)
		}, "", false},
		"others' writes make a cache lag, not a stale write": {func(s *viewtest.Script) {
			begin := s.Frame(1, s.Write("user", "pods", "a", true, 0))
			s.Write("user", "jobs.batch", "j", true, 0)
			again := s.Add(history.Step{Kind: history.Time, Actor: "", At: time.Second}, begin)
			s.Write("c", "pods", "b", false, again)
		}, "", true},
		"it does not watch what it wrote": {func(s *viewtest.Script) {
			begin := s.Frame(1, s.Write("user", "pods", "a", true, 0))
			s.Write("c", "leases.coordination.k8s.io", "l", true, begin)
			s.Write("c", "pods", "b", false, s.Frame(1, s.Write("user", "pods", "a", true, 0)))
		}, "", false},
		"it reads the object from the API first": {func(s *viewtest.Script) {
			begin := s.Frame(1, s.Write("user", "pods", "a", true, 0))
			s.Write("c", "jobs.batch", "j", true, begin)
			again := s.Frame(1, s.Write("user", "pods", "a", true, 0))
			got := s.Add(history.Step{Kind: history.Request, Actor: "c", Verb: "get", Code: 200, Revision: 3,
				Object: history.Object{Resource: "jobs.batch", Namespace: "default", Name: "j"}}, again)
			s.Write("c", "pods", "b", false, got)
		}, "", true},
		"it reads another object first": {func(s *viewtest.Script) {
			begin := s.Frame(1, s.Write("user", "pods", "a", true, 0))
			s.Write("c", "jobs.batch", "j", true, begin)
			again := s.Frame(1, s.Write("user", "pods", "a", true, 0))
			got := s.Add(history.Step{Kind: history.Request, Actor: "c", Verb: "get", Code: 200, Revision: 3,
				Object: history.Object{Resource: "jobs.batch", Namespace: "default", Name: "k"}}, again)
			s.Write("c", "pods", "b", false, got)
		}, "9<5!", true},
		"a bookmark reports the revision": {func(s *viewtest.Script) {
			begin := s.Frame(1, s.Write("user", "pods", "a", true, 0))
			s.Write("c", "jobs.batch", "j", true, begin)
			mark := s.Add(history.Step{Kind: history.Frame, Actor: "c", Stream: 2, Type: "BOOKMARK", Revision: s.Revision,
				Object: history.Object{Resource: "jobs.batch"}}, 2)
			s.Write("c", "pods", "b", false, mark)
		}, "", false},
		"after a restart the new list counts": {func(s *viewtest.Script) {
			begin := s.Frame(1, s.Write("user", "pods", "a", true, 0))
			s.Write("c", "jobs.batch", "j", true, begin)
			s.Add(history.Step{Kind: history.Crash, Actor: "c"})
			again := s.Add(history.Step{Kind: history.Start, Actor: "c"})
			pods := s.Add(history.Step{Kind: history.Request, Actor: "c", Verb: "list", Code: 200, Revision: s.Revision,
				Object: history.Object{Resource: "pods"}}, again)
			jobs := s.Add(history.Step{Kind: history.Request, Actor: "c", Verb: "list", Code: 200, Revision: s.Revision,
				Object: history.Object{Resource: "jobs.batch"}}, pods)
			s.Write("c", "pods", "b", false, jobs)
		}, "", false},
		"a list in pages is the same cache as the watch": {func(s *viewtest.Script) {
			begin := s.Frame(1, s.Write("user", "pods", "a", true, 0))
			s.Write("c", "pods", "a", true, begin)
			s.Add(history.Step{Kind: history.Crash, Actor: "c"})
			again := s.Add(history.Step{Kind: history.Start, Actor: "c"})
			s.Add(history.Step{Kind: history.Request, Actor: "c", Verb: "list", Code: 200, Revision: s.Revision, Query: "limit=500",
				Object: history.Object{Resource: "pods"}}, again)
			s.Watch(3, "pods", "")
			s.Write("c", "pods", "b", false, s.Add(history.Step{Kind: history.Time, At: time.Second}))
		}, "", false},
		"a selector may exclude its own write": {func(s *viewtest.Script) {
			s.Watch(3, "configmaps", "labelSelector=x")
			begin := s.Frame(1, s.Write("user", "pods", "a", true, 0))
			s.Write("c", "configmaps", "m", true, begin)
			s.Write("c", "pods", "b", false, s.Frame(1, s.Write("user", "pods", "a", true, 0)))
		}, "", false},
		"a selector does not exclude it": {func(s *viewtest.Script) {
			s.Watch(3, "configmaps", "labelSelector=x")
			begin := s.Frame(1, s.Write("user", "pods", "a", true, 0))
			own := s.Write("c", "configmaps", "m", true, begin)
			s.Write("c", "pods", "b", false, s.Frame(1, s.Write("user", "pods", "a", true, 0)))
			s.Frame(3, own)
		}, "9<6!", true},
		"a write without a cause is not checked": {func(s *viewtest.Script) {
			begin := s.Frame(1, s.Write("user", "pods", "a", true, 0))
			s.Write("c", "jobs.batch", "j", true, begin)
			n := s.Write("c", "pods", "b", false, 0)
			s.Record.Steps[n].Causes = nil
		}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := viewtest.NewScript()
			c.play(s)
			got := ""
			for _, w := range invariant.StaleWrites(&s.Record) {
				got += fmt.Sprintf("%d<%d", w.Step, w.Own)
				if w.Accepted {
					got += "!"
				}
				if w.String() == "" || w.Actor != "c" {
					t.Errorf("%+v", w)
				}
			}
			if got != c.stale {
				t.Errorf("stale %q, want %q", got, c.stale)
			}
			want := "each write was decided on a cache that was up to date"
			if c.lags {
				want = ""
			}
			viewtest.Check(t, invariant.Stale("c"), s, want)
			viewtest.Check(t, invariant.Stale("nameless"), s, "each write")
		})
	}
}

// BenchmarkLongReconcile measures StaleWrites for a controller that never returns from its first reconcile,
// with a cache that lags. The time per write does not depend on the number of writes.
func BenchmarkLongReconcile(b *testing.B) {
	for _, writes := range []int{1_000, 10_000} {
		b.Run(fmt.Sprint(writes), func(b *testing.B) {
			s := viewtest.NewScript()
			own := s.Write("c", "jobs.batch", "j", true, s.Frame(1, s.Write("user", "pods", "a", true, 0)))
			at := s.Frame(1, s.Write("user", "pods", "a", true, own))
			for n := range writes {
				at = s.Write("c", "pods", fmt.Sprint("p", n), true, at)
			}
			for b.Loop() {
				if stale := invariant.StaleWrites(&s.Record); len(stale) == 0 {
					b.Fatal("no stale write was found")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(writes), "ns/write")
		})
	}
}

// TestOraclesTakeAnyRecord checks that the oracles accept any record without a panic, and that a write is
// stale only against an earlier one of the same actor.
func TestOraclesTakeAnyRecord(t *testing.T) {
	kinds := []history.Kind{history.Start, history.Crash, history.Request, history.Answer, history.Frame, history.Cut, history.Time, history.Fault}
	verbs := []string{"", "get", "list", "watch", "create", "update", "patch", "delete"}
	rapid.Check(t, func(t *rapid.T) {
		w := &viewtest.World{}
		for n := range rapid.IntRange(0, 40).Draw(t, "steps") {
			step := history.Step{
				Kind:     rapid.SampledFrom(kinds).Draw(t, "kind"),
				Actor:    rapid.SampledFrom([]string{"", "c", "d/0", "user"}).Draw(t, "actor"),
				Verb:     rapid.SampledFrom(verbs).Draw(t, "verb"),
				Code:     rapid.SampledFrom([]int{0, 200, 404, 409}).Draw(t, "code"),
				Query:    rapid.SampledFrom([]string{"", "", "labelSelector=x"}).Draw(t, "query"),
				Reply:    rapid.SampledFrom([]string{"", "", "late", "lost"}).Draw(t, "reply"),
				Stream:   rapid.IntRange(0, 3).Draw(t, "stream"),
				Revision: int64(rapid.IntRange(0, 20).Draw(t, "revision")),
				Before:   int64(rapid.IntRange(0, 20).Draw(t, "before")),
				Object:   history.Object{Resource: rapid.SampledFrom([]string{"", "pods", "jobs.batch"}).Draw(t, "resource"), Name: "a"},
			}
			if n > 0 {
				step.Causes = rapid.SliceOfN(rapid.IntRange(0, n-1), 0, 1).Draw(t, "causes")
			}
			w.Record.Add(step)
		}
		for _, s := range invariant.StaleWrites(&w.Record) {
			if s.Own > s.Decided || s.Decided >= s.Step || w.Record.Steps[s.Own].Actor != s.Actor || !w.Record.Steps[s.Own].Wrote() {
				t.Fatalf("%+v", s)
			}
		}
		for _, i := range []invariant.Invariant{
			invariant.Stale(""), invariant.DefaultHotLoop, invariant.NoOrphans(), invariant.UniqueOwnerUID(), invariant.Deleted(),
			invariant.NoSuccessorDeleted(), invariant.NoPredecessorState("pods", "", "a", ""),
		} {
			_ = i.Check(w)
		}
		for _, set := range []invariant.Set{
			job.Invariants(invariant.Owner{Kind: "Job", Name: "a"}),
			cloneset.Invariants(invariant.Owner{Kind: "CloneSet", Name: "a"}),
		} {
			for _, i := range append(set.Always, set.AtQuiescence) {
				_ = i.Check(w)
			}
		}
	})
}

func TestHotLoop(t *testing.T) {
	for name, c := range map[string]struct {
		play func(s *viewtest.Script)
		want string
	}{
		"the same request repeatedly": {func(s *viewtest.Script) {
			for n := range 4 {
				get(s, "a", time.Duration(n)*time.Second)
			}
		}, `c sent 4 requests "get pods default/a" within 3s, up to step 6`},
		"slowly": {func(s *viewtest.Script) {
			for n := range 9 {
				get(s, "a", time.Duration(n)*4*time.Second)
			}
		}, ""},
		"for different objects": {func(s *viewtest.Script) {
			for n := range 9 {
				get(s, fmt.Sprint(n), 0)
			}
		}, ""},
		"with events of other actors in between": {func(s *viewtest.Script) {
			for range 9 {
				get(s, "a", 0)
				s.Write("user", "pods", "b", true, 0)
			}
		}, ""},
		"with deletes of other actors whose answers have no revision": {func(s *viewtest.Script) {
			for range 9 {
				get(s, "a", 0)
				s.Add(history.Step{Kind: history.Request, Actor: "other-user", Verb: "delete", Code: 200, Object: history.Object{Resource: "pods", Namespace: "default", Name: "b"}}, 0)
			}
		}, ""},
		"with deletes of other actors that were rejected": {func(s *viewtest.Script) {
			for range 9 {
				get(s, "a", 0)
				s.Add(history.Step{Kind: history.Request, Actor: "other-user", Verb: "delete", Code: 404, Object: history.Object{Resource: "pods", Namespace: "default", Name: "b"}}, 0)
			}
		}, "c sent 4 requests"},
		"with events that it does not watch": {func(s *viewtest.Script) {
			for range 9 {
				get(s, "a", 0)
				s.Write("user", "nodes", "b", true, 0)
			}
		}, "c sent 4 requests"},
		"with its own writes in between": {func(s *viewtest.Script) {
			for n := range 9 {
				s.Write("c", "pods", fmt.Sprint(n), true, 0)
				get(s, "a", 0)
			}
		}, "c sent 4 requests"},
		"of an actor that is not a controller": {func(s *viewtest.Script) {
			for range 9 {
				s.Write("user", "pods", "a", true, 0)
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := viewtest.NewScript()
			c.play(s)
			viewtest.Check(t, invariant.HotLoop(3, 10*time.Second), s, c.want)
		})
	}
}

func get(s *viewtest.Script, name string, at time.Duration) {
	s.Add(history.Step{Kind: history.Request, Actor: "c", Verb: "get", Code: 200, At: at,
		Object: history.Object{Resource: "pods", Namespace: "default", Name: name}}, 0)
}

func TestHappened(t *testing.T) {
	s := viewtest.NewScript()
	s.Write("job/1", "pods", "a", true, 0)
	s.Add(history.Step{Kind: history.Crash, Actor: "job/1"})
	for _, c := range []struct {
		i    invariant.Invariant
		name string
		want string
	}{
		{invariant.Happened(history.Crash, "job", ""), "crash job happened", ""},
		{invariant.Happened(history.Crash, "", ""), "crash happened", ""},
		{invariant.Happened(history.Crash, "jo", ""), "crash jo happened", "no such step"},
		{invariant.Happened(history.Cut, "", "pods"), "cut pods happened", "no such step"},
		{invariant.Wrote("job/1", "patch", "pods"), "job/1 wrote patch pods", ""},
		{invariant.Wrote("", "", ""), "any actor wrote", ""},
		{invariant.Wrote("job", "create", "pods"), "job wrote create pods", "no such write"},
		{invariant.Wrote("c", "", ""), "c wrote", "no such write"},
	} {
		if c.i.Name != c.name {
			t.Errorf("name %q, want %q", c.i.Name, c.name)
		}
		viewtest.Check(t, c.i, s, c.want)
	}
}

// TestNotRejectedAgain: an invalid write may be retried, but not for ever.
func TestNotRejectedAgain(t *testing.T) {
	send := func(s *viewtest.Script, n, code int, fault string) {
		for range n {
			s.Add(history.Step{Kind: history.Request, Actor: "c", Verb: "create", Code: code, Fault: fault, Object: history.Object{Resource: "pods", Namespace: "default", Name: "a"}})
		}
	}
	for name, c := range map[string]struct {
		play func(s *viewtest.Script)
		want string
	}{
		"five times":             {func(s *viewtest.Script) { send(s, 5, 422, "") }, ""},
		"six times":              {func(s *viewtest.Script) { send(s, 6, 422, "") }, `c sent "create pods default/a" 6 times`},
		"two codes":              {func(s *viewtest.Script) { send(s, 3, 400, ""); send(s, 3, 422, "") }, `6 times`},
		"accepted in the end":    {func(s *viewtest.Script) { send(s, 9, 422, ""); send(s, 1, 201, "") }, ""},
		"accepted in the middle": {func(s *viewtest.Script) { send(s, 4, 422, ""); send(s, 1, 201, ""); send(s, 4, 422, "") }, ""},
		"denied by a policy":     {func(s *viewtest.Script) { send(s, 9, 403, "") }, ""},
		"on a cache that is behind": {func(s *viewtest.Script) {
			s.Add(history.Step{Kind: history.Request, Actor: "c", Verb: "watch", Code: 200, Stream: 1, Object: history.Object{Resource: "pods"}})
			s.Add(history.Step{Kind: history.Request, Actor: "user", Verb: "create", Code: 201, Revision: 7, Object: history.Object{Resource: "pods", Namespace: "default", Name: "b"}})
			send(s, 9, 422, "")
		}, ""},
		"because of a fault": {func(s *viewtest.Script) { send(s, 9, 422, "deny actor=c") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := viewtest.NewScript()
			c.play(s)
			viewtest.Check(t, invariant.NotRejectedAgain(), s, c.want)
		})
	}
}

// TestNoClaimDeleted: a controller must not delete a claim, unless a user deleted something that may own it.
func TestNoClaimDeleted(t *testing.T) {
	for _, c := range []struct {
		steps []history.Step
		want  string
	}{
		{[]history.Step{deletion("c", "persistentvolumeclaims", "data", "", 0)}, "c deleted default/data (step 3)"},
		{[]history.Step{deletion("user", "persistentvolumeclaims", "data", "", 0)}, ""},
		{[]history.Step{deletion("c", "pods", "a", "", 0)}, ""},
		{[]history.Step{deletion(history.OtherUser, "webs.example.com", "a", "", 0), deletion("c", "persistentvolumeclaims", "data", "", 0)}, ""},
	} {
		s := viewtest.NewScript()
		for _, step := range c.steps {
			s.Add(step)
		}
		viewtest.Check(t, invariant.NoClaimDeleted(), s, c.want)
	}
}

// TestConsistentConditions: an object must not have two statuses at once.
func TestConsistentConditions(t *testing.T) {
	for conditions, want := range map[string]string{
		`{type: Ready, status: "True"}, {type: Stalled, status: "False"}`:   "",
		`{type: Ready, status: "True"}, {type: Stalled, status: "True"}`:    "conditions Ready and Stalled are both True",
		`{type: Complete, status: "True"}, {type: Failed, status: "True"}`:  "conditions Complete and Failed are both True",
		`{type: Ready, status: "True"}, {type: Ready, status: "False"}`:     "condition Ready is both True and False",
		`{type: Available, status: "True"}, {type: Ready, status: "False"}`: "",
		``: "",
	} {
		w := viewtest.NewWorld(t, "resource: jobs.batch\nmetadata: {namespace: default, name: pi}\nstatus: {conditions: ["+conditions+"]}\n")
		w.Record.Add(history.Step{Kind: history.Request, Actor: "c", Verb: "create", Code: 201, Revision: 5, Object: history.Object{Resource: "jobs.batch", Namespace: "default", Name: "pi"}})
		viewtest.Check(t, invariant.ConsistentConditions(), w, want)
	}
}
