package sim_test

import (
	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// writer records the run of an actor that only writes.
type writer struct {
	run  *history.Run
	plan *fault.Plan
	// answers has the code by which a request with a fault is answered.
	answers func(f fault.Fault) int
}

// newWriter begins the run of a plan.
func newWriter(p sim.Plan, answers func(f fault.Fault) int) *writer {
	w := &writer{run: &history.Run{Header: history.Header{Format: history.Format, Seed: p.Seed, Faults: fault.Strings(p.Faults)}}, plan: fault.NewPlan(p.Faults), answers: answers}
	w.run.Add(history.Step{Kind: history.Start, Actor: "a"})
	return w
}

// write adds a write of an object, with the faults that it meets.
func (w *writer) write(verb, resource, name string) history.Step {
	n := int64(len(w.run.Steps))
	s := history.Step{
		Kind: history.Request, Actor: "a", Verb: verb, Object: history.Object{Resource: resource, Namespace: "default", Name: name},
		Code: 200, Revision: n + 1, Before: n, Guarded: true, Versioned: verb == "update",
	}
	for _, f := range w.plan.Meet(fault.Item{Class: fault.Call, Actor: "a", Verb: verb, Resource: resource, Object: s.Key(), Write: true, Versioned: s.Versioned}) {
		s.Fault, s.Code = f.String(), w.answers(f)
	}
	if s.Code != 200 {
		s.Revision, s.Before = 0, 0
	}
	w.run.Add(s)
	return s
}
