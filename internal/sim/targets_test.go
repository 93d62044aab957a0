package sim_test

import (
	"slices"
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// TestRecreatedStatus: an object is created again before the user has written its status, and not afterwards, because the new
// object would never have that status.
func TestRecreatedStatus(t *testing.T) {
	pod := history.Object{Resource: "pods", Namespace: "default", Name: "a"}
	bound := func(revision int64, cause int) history.Step {
		return history.Step{Kind: history.Request, Actor: "c", Verb: "update", Object: pod, Code: 200, Before: revision - 1, Revision: revision, Causes: []int{cause}}
	}
	record := func(sub string) *history.Run {
		r := &history.Run{}
		for _, s := range []history.Step{
			{Kind: history.Start, Actor: "c"},
			{Kind: history.Request, Actor: history.User, Verb: "create", Object: pod, Code: 201, Revision: 1},
			{Kind: history.Request, Actor: "c", Verb: "list", Object: history.Object{Resource: "pods"}, Code: 200, Revision: 1},
			{Kind: history.Request, Actor: history.User, Verb: "patch", Object: pod, Subresource: sub, Code: 200, Before: 1, Revision: 2},
			{Kind: history.Frame, Actor: "c", Object: pod, Type: "MODIFIED", Revision: 2, Causes: []int{3}},
			bound(3, 4),
		} {
			r.Add(s)
		}
		return r
	}
	for sub, want := range map[string]bool{"": true, "status": false} {
		found := slices.ContainsFunc(sim.Candidates(record(sub), fault.Any(fault.Legal), sim.Virtual), func(f fault.Fault) bool {
			return f.Kind == fault.KindRecreate
		})
		if found != want {
			t.Errorf("after a write of the user to %q: created again %t, want %t", "pods/"+sub, found, want)
		}
	}
}
