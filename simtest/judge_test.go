package simtest

import (
	"errors"
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// TestExpectedStates: a state that was compared once is not compared again, unless it was accepted only because a fault of
// its run creates an object again.
func TestExpectedStates(t *testing.T) {
	s, err := theServer()
	must(t, err)
	config := Options{}.settings()
	compare := func(expect error, faults ...fault.Fault) error {
		w := &World{config: config, truth: verdict.NewObjects(verdict.ObjectsOptions{Resources: s.worlds}, 0, nil)}
		w.plan = sim.Plan{Faults: faults, Expect: func(verdict.State) error { return expect }}
		return w.finalRules().Baseline()
	}
	differs, recreate := errors.New("it differs"), fault.Fault{Kind: fault.KindRecreate}
	if err := compare(nil, recreate); err != nil {
		t.Error(err)
	}
	if err := compare(differs); err == nil {
		t.Error("the state was accepted, because it was after a re-creation")
	}
	if err := compare(nil); err != nil {
		t.Error(err)
	}
	if err := compare(differs); err != nil {
		t.Error("the state was compared again")
	}
}
