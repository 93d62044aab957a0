package history_test

import (
	"testing"

	"github.com/rehearse-k8s/rehearse/history"
)

// TestDepartsFrom: the order of the steps of processes does not count, only what each actor wrote to each object.
func TestDepartsFrom(t *testing.T) {
	write := func(actor, verb, resource, name string) history.Step {
		return history.Step{Kind: history.Request, Actor: actor, Verb: verb, Object: history.Object{Resource: resource, Name: name}, Code: 200}
	}
	get := history.Step{Kind: history.Request, Actor: "job", Verb: "get", Object: history.Object{Resource: "pods", Name: "a"}, Code: 200}
	create, patch, remove := write("job", "create", "pods", "a"), write("kubelet", "patch", "pods", "a"), write("job", "delete", "pods", "a")
	other := write("job", "create", "pods", "b")
	lease, rejected := write("job", "update", "leases.coordination.k8s.io", "job"), remove
	rejected.Code = 409
	run := func(atEnd bool, steps ...history.Step) *history.Run {
		r := &history.Run{}
		r.Live = true
		for n, s := range steps {
			if s.IsWrite() && s.Code == 200 {
				s.Before, s.Revision = int64(n), int64(n+1)
			}
			r.Add(s)
		}
		r.Failure = &history.Failure{AtEnd: atEnd}
		return r
	}
	for name, c := range map[string]struct {
		run, passing *history.Run
		want         history.Departure
		ok           bool
	}{
		"another order":              {run(false, create, other, patch), run(false, get, other, lease, create, patch), history.Departure{ByWrites: true}, false},
		"a write too many":           {run(false, create, patch, remove), run(false, create, patch), history.Departure{Step: 2, Nearest: 2, ByWrites: true}, true},
		"another verb":               {run(false, get, create, remove), run(false, create, write("job", "patch", "pods", "a"), remove), history.Departure{Step: 2, Nearest: 1, ByWrites: true}, true},
		"ended before the write":     {run(false, create, patch), run(false, create, patch, remove), history.Departure{ByWrites: true}, false},
		"a write that never happens": {run(true, create, get, patch, rejected), run(true, create, patch, get, remove), history.Departure{Step: 1, Nearest: 3, ByWrites: true}, true},
		"a write of the successor":   {run(false, create, write("job+", "delete", "pods", "a")), run(false, create, remove), history.Departure{ByWrites: true}, false},
		"a generated name":           {run(false, write("job", "create", "pods", "x-1"), write("job", "create", "pods", "x-2")), run(false, write("job", "create", "pods", "x-3")), history.Departure{Step: 1, Nearest: 1, ByWrites: true}, true},
	} {
		got, ok := c.run.DepartsFrom(c.passing)
		if !ok {
			got = history.Departure{ByWrites: true}
		}
		if got != c.want || ok != c.ok {
			t.Errorf("%s: %+v %v, want %+v %v", name, got, ok, c.want, c.ok)
		}
	}
}
