package inject_test

import (
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/inject"
)

// TestOldLists: a list is answered as of the revision right before the last writes of its resource, and never as of an older one than it
// permits; the state of another server counts only for what that server does not have.
func TestOldLists(t *testing.T) {
	write := func(resource string, revision int64) history.Step {
		return history.Step{Kind: history.Request, Actor: "user", Verb: "update", Object: history.Object{Resource: resource}, Code: 200, Before: 1, Revision: revision}
	}
	steps := []history.Step{
		write("pods", 11), write("nodes", 12), write("pods", 13),
		// A change whose author the record does not have; what existed before, and progress, are no changes.
		{Kind: history.Frame, Type: "MODIFIED", Object: history.Object{Resource: "pods"}, Revision: 15},
		{Kind: history.Frame, Type: "ADDED", Object: history.Object{Resource: "pods"}, Revision: 9, Note: "existed before the watch"},
		{Kind: history.Frame, Type: "BOOKMARK", Object: history.Object{Resource: "pods"}, Revision: 16},
	}
	stale := func(writes int) inject.Decision {
		return inject.BeforeServing([]fault.Fault{{Kind: fault.KindStaleList, Writes: writes}})
	}
	current := inject.Decision{Action: inject.Serve}
	for name, c := range map[string]struct {
		decision inject.Decision
		resource string
		version  string
		other    int64
		want     int64 // 0: the current state
	}{
		"the last write":               {stale(0), "pods", "0", 0, 14},
		"two writes":                   {stale(2), "pods", "0", 0, 12},
		"more than there are":          {stale(9), "pods", "0", 0, 10},
		"not older than permitted":     {stale(9), "pods", "13", 0, 13},
		"only the current is new":      {stale(9), "pods", "16", 0, 0},
		"no write":                     {stale(1), "secrets", "0", 0, 0},
		"another server":               {current, "pods", "0", 12, 12},
		"another server, not older":    {current, "pods", "14", 12, 14},
		"another server that is ahead": {current, "pods", "0", 16, 0},
		"both":                         {stale(1), "pods", "0", 12, 14},
		"no fault":                     {current, "pods", "0", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var l inject.OldLists
			d := l.Decide(c.decision, inject.ListRead{
				Actor: "c", Resource: c.resource, ResourceVersion: c.version, Newest: 16, OtherRevision: c.other, Steps: func() []history.Step { return steps },
			})
			if want := c.want > 0; d.AsOf != c.want || (d.Action == inject.ServeOld) != want || d.Action == inject.Reject {
				t.Errorf("%+v, want revision %d", d, c.want)
			}
		})
	}
}

// TestOldListAfterWatch: a watch that sends the initial objects is rejected, and the next list is old, once, and not after a further watch.
func TestOldListAfterWatch(t *testing.T) {
	steps := []history.Step{{Kind: history.Request, Verb: "create", Object: history.Object{Resource: "pods"}, Code: 201, Revision: 5}}
	var l inject.OldLists
	read := func(actor string, watch bool, d inject.Decision) inject.Action {
		return l.Decide(d, inject.ListRead{Actor: actor, Resource: "pods", ResourceVersion: "0", Watch: watch, Newest: 5, Steps: func() []history.Step { return steps }}).Action
	}
	fails := inject.BeforeServing([]fault.Fault{{Kind: fault.KindStaleList}})
	served := inject.Decision{Action: inject.Serve}
	for n, c := range []struct {
		actor    string
		watch    bool
		decision inject.Decision
		want     inject.Action
	}{
		{"c", true, fails, inject.Reject},
		{"other", false, served, inject.Serve},
		{"c", false, inject.Decision{Action: inject.Drop}, inject.Drop}, // it is not answered: the next one is old
		{"c", false, served, inject.ServeOld},
		{"c", false, served, inject.Serve},
		{"c", true, fails, inject.Reject},
		{"c", true, served, inject.Serve},
		{"c", false, served, inject.Serve},
	} {
		if have := read(c.actor, c.watch, c.decision); have != c.want {
			t.Errorf("%d: %d, want %d", n, have, c.want)
		}
	}
}
