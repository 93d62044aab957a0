package invariant_test

import (
	"maps"
	"testing"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/viewtest"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// TestDecisions: for each write of a controller, how many writes its caches lacked when its reconcile started.
func TestDecisions(t *testing.T) {
	s := viewtest.NewScript()
	first := s.Write("user", "pods", "a", false, 0)
	s.Write("user", "jobs.batch", "b", false, 0)
	s.Write("user", "jobs.batch", "b", false, 0)
	event := s.Frame(1, first)
	write := s.Write("c", "pods", "a", false, event)
	s.Add(history.Step{Kind: history.Request, Actor: "c", Verb: "update", Code: 200, Revision: s.Revision + 1, Before: 1, Object: history.Object{Resource: "leases.coordination.k8s.io", Name: "c"}}, event)
	own := s.Frame(1, write)
	s.Write("c", "pods", "a", false, own)
	all := invariant.Decisions(&s.Record)
	want := []map[string]int{{"pods": 0, "jobs.batch": 2}, {"pods": 0, "jobs.batch": 2}}
	if len(all) != len(want) || all[0].Write != write || all[0].Decided != event || !maps.Equal(all[0].Behind, want[0]) || !maps.Equal(all[1].Behind, want[1]) {
		t.Errorf("have %+v, want %v", all, want)
	}
}
