package sim

import (
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// TestEditedAndRecreated: a run in which the user's object is created again is not compared in the status of that object, if the user has changed it in the
// runs without faults; also in another process.
func TestEditedAndRecreated(t *testing.T) {
	state := func(succeeded string) verdict.State {
		return verdict.NewState([]verdict.Object{{Resource: "jobs.batch", Content: map[string]any{
			"metadata": map[string]any{"name": "words", "namespace": "default"}, "status": map[string]any{"succeeded": succeeded},
		}}})
	}
	recreate := []fault.Fault{{Kind: fault.KindRecreate, Target: "jobs.batch/default/words"}}
	for _, verb := range []string{"create", "patch"} {
		run := &history.Run{}
		run.Add(history.Step{Kind: history.Request, Actor: history.User, Verb: verb, Code: 200, Object: history.Object{Resource: "jobs.batch", Namespace: "default", Name: "words"}, Revision: 1})
		s := &search{result: &Result{}}
		s.learn(&Outcome{Run: run})
		s.states = []verdict.State{state("3"), state("3")}
		s.learned()
		here, there := s.prepared(Plan{Faults: recreate}).Expect, s.expects.baseline().CompareAfter(recreate)
		if edited := verb == "patch"; (here(state("2")) == nil) != edited || (there(state("2")) == nil) != edited {
			t.Errorf("after a %s of the user: here %v, in another process %v", verb, here(state("2")), there(state("2")))
		}
	}
}
