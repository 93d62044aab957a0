package sim

import (
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// TestArrivals: a fault sees the same in an arrival without a step as in the step that it would have.
func TestArrivals(t *testing.T) {
	o := history.Object{Resource: "pods", Namespace: "default", Name: "a"}
	for _, s := range []history.Step{
		{Kind: history.Request, Actor: "c", Verb: "update", Object: o, Subresource: "status", Versioned: true},
		{Kind: history.Request, Actor: "c", Verb: "list", Object: o, Query: "continue=x&limit=5", Older: true},
		{Kind: history.Frame, Actor: "c", Object: o, Type: "ADDED", Note: "existed before the watch"},
	} {
		want, _ := itemOf(&s)
		next := history.Step{Kind: history.Time, Unrecorded: []history.Arrival{s.Arrived()}}
		n := 0
		for item, ofStep := range arrivals(&next) {
			if n++; item != want || ofStep {
				t.Errorf("%+v arrived (of the step: %v); want %+v", item, ofStep, want)
			}
		}
		if n != 1 {
			t.Errorf("%d arrivals", n)
		}
	}
}

// TestOccurrences counts what arrived without a step for its own actor, and not for that of the step that names it. It counts no event that was not
// delivered in its step.
func TestOccurrences(t *testing.T) {
	request, lost := write("a"), event
	request.Actor, lost.Reply = "c", "lost"
	lost.Unrecorded = []history.Arrival{request.Arrived()}
	run := runOf(lost, request)
	run.Add(history.Step{Kind: history.Time, Unrecorded: []history.Arrival{request.Arrived()}})
	other := request
	other.Actor = "user"
	run.Add(history.Step{Kind: history.Time, Unrecorded: []history.Arrival{other.Arrived()}})
	for _, c := range []struct {
		kind fault.Kind
		want int
	}{{fault.KindLostAnswer, 3}, {fault.KindLag, 0}} {
		if n := occurrences(run, fault.Fault{Kind: c.kind}); n != c.want {
			t.Errorf("%s: %d places; want %d", c.kind, n, c.want)
		}
	}
}
