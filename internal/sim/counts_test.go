package sim_test

import (
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// TestEveryPlace: each fault that is a candidate of a run acts in that run, where it is meant
// to: bookmarks, subresources and writes without a precondition are counted as faults do.
func TestEveryPlace(t *testing.T) {
	pod := history.Object{Resource: "pods", Namespace: "default", Name: "web-0"}
	run := &history.Run{Header: history.Header{Format: history.Format}}
	var items []fault.Item // of each step
	add := func(s history.Step, i fault.Item) {
		run.Add(s)
		i.Actor, i.Verb, i.Type = s.Actor, s.Verb, s.Type
		i.Resource, i.Object = s.Resource, s.Key()
		if s.Subresource != "" {
			i.Resource += "/" + s.Subresource
		}
		items = append(items, i)
	}
	frame := func(kind string) {
		o := pod
		if kind == "BOOKMARK" {
			o = history.Object{Resource: "pods"}
		}
		add(history.Step{Kind: history.Frame, Actor: "a", Object: o, Type: kind}, fault.Item{Class: fault.Event})
	}
	write := func(verb, sub string, guarded bool) {
		s := history.Step{Kind: history.Request, Actor: "a", Verb: verb, Object: pod, Subresource: sub, Versioned: guarded, Code: 200, Revision: int64(len(items))}
		add(s, fault.Item{Class: fault.Call, Write: true, Versioned: guarded})
	}
	add(history.Step{Kind: history.Start, Actor: "a"}, fault.Item{})
	for range 2 {
		frame("BOOKMARK")
		frame("ADDED")
		write("patch", "status", false)
		frame("MODIFIED")
		write("update", "", false)
		write("update", "status", true)
		write("update", "", true)
		write("patch", "", true)
		write("delete", "", true)
		frame("DELETED")
	}
	write("create", "", false)
	add(history.Step{Kind: history.Start, Actor: "a+"}, fault.Item{}) // faults of a act on its second instance too
	for _, actor := range []string{"a+", "a", "a+"} {
		s := history.Step{Kind: history.Request, Actor: actor, Verb: "update", Object: pod, Code: 200, Revision: int64(len(items))}
		add(s, fault.Item{Class: fault.Call, Write: true})
	}
	lost := map[int]int{}
	for _, f := range sim.Candidates(run, fault.Any(fault.Seen), sim.Virtual) {
		plan := fault.NewPlan([]fault.Fault{f})
		for n, i := range items {
			for range plan.Meet(i) {
				if f.Resource != i.Resource {
					t.Errorf("%s acts on %s, in step %d", f, i.Resource, n)
				}
				if f.Kind == fault.KindLostAnswer {
					lost[n]++
				}
			}
		}
		if len(plan.Unmet()) > 0 {
			t.Errorf("%s never acts", f)
		}
	}
	for n := range run.Steps {
		if s := &run.Steps[n]; s.Kind == history.Request && lost[n] != 1 {
			t.Errorf("the answer of step %d, %s %s, is lost %d times", n, s.Verb, s.Object, lost[n])
		}
	}
}
