package verdict

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// The rules that every run must satisfy, in addition to those of its test or scenario.
var (
	// atQuiescence must hold when a run is quiescent. The first one that does not is reported, so those that name a harmful
	// write come first.
	atQuiescence = []rule{
		{invariant.NoClaimDeleted(), true}, {invariant.NoSuccessorDeleted(), true}, {invariant.NoLostUpdate(), true},
		{invariant.Deleted(), false}, {invariant.UniqueOwnerUID(), false},
		{invariant.NoOrphans(), true}, {invariant.ConsistentConditions(), true}, {invariant.NotRejectedAgain(), true},
	}
)

// rule is an invariant that every run must satisfy. An exemptible one need not hold if the runs without faults already
// violate it: without a garbage collector, for example, orphans are not the fault of the controller.
type rule struct {
	invariant.Invariant
	exemptible bool
}

// BaselineOracle names the rule that a run ends in the same state as the runs without faults.
const BaselineOracle = "ends as without faults"

// GrowthOracle names the rule that repetitions leave no goroutines behind. Its message is the cause: it names the statement
// that starts them.
const GrowthOracle = "goroutines do not grow with repetitions"

// ObservedGenerationOracle names the rule that a controller has observed the newest spec of its objects.
const ObservedGenerationOracle = "status.observedGeneration reaches metadata.generation"

// Eventually is an invariant that must hold within a time after the scenario's last step.
type Eventually struct {
	invariant.Invariant
	Within time.Duration
}

// Oracle names the rule in a failure.
func (e Eventually) Oracle() string { return fmt.Sprintf("%s, within %s", e.Name, e.Within) }

// Unmet is a rule that does not hold yet, and the time within which it must.
type Unmet struct {
	Oracle, Message string
	Within          time.Duration
	// Resource and Path say which field differs, if the rule is that of the final state.
	Resource, Path string
	// Step is the harmful write, if the rule names it; 0: something is missing at the end.
	Step int
}

// Final is what must hold at the end of a run.
type Final struct {
	Eventually []Eventually
	// Timeout is the time within which the rules of every run must hold. It is extended to the
	// longest Eventually.
	Timeout time.Duration
	// Learn: this is a run without faults. An invariant that it violates is not required of other runs.
	Learn bool
	// Exempt are the names of invariants that the runs without faults violate.
	Exempt map[string]bool
	// Baseline compares the final state with the runs without faults; nil: no comparison.
	Baseline func() error
	// Generations compares status.observedGeneration with metadata.generation; nil: no comparison.
	Generations func() error
	// Policy says which rules are not checked.
	Policy Policy
}

// Longest is the time within which every rule must hold.
func (f *Final) Longest() time.Duration {
	longest := f.Timeout
	for _, e := range f.Eventually {
		longest = max(longest, e.Within)
	}
	return longest
}

// Unmet returns the rules that do not hold now. exempt names the invariants that a run without
// faults violates, for the Exempt of later runs.
func (f *Final) Unmet(check func(invariant.Invariant) error) (unmet []Unmet, exempt []string) {
	for _, e := range f.Eventually {
		if err := check(e.Invariant); err != nil {
			unmet = append(unmet, Unmet{Oracle: e.Oracle(), Message: err.Error(), Within: e.Within})
		}
	}
	longest := f.Longest()
	for _, r := range atQuiescence {
		if !f.Policy.Checks(automaticByOracle[r.Name]) {
			continue
		}
		err := check(r.Invariant)
		switch {
		case err == nil:
		case r.exemptible && f.Learn:
			exempt = append(exempt, r.Name)
		case !r.exemptible || !f.Exempt[r.Name]:
			u := Unmet{Oracle: r.Name, Message: err.Error(), Within: longest}
			if at := (*invariant.StepError)(nil); errors.As(err, &at) {
				u.Step = at.Step
			}
			unmet = append(unmet, u)
		}
	}
	for _, c := range []struct {
		name, oracle string
		compare      func() error
	}{
		{invariant.AutomaticObservedGeneration, ObservedGenerationOracle, f.Generations},
		{invariant.AutomaticEndState, BaselineOracle, f.Baseline},
	} {
		if c.compare == nil || len(unmet) > 0 || !f.Policy.Checks(c.name) {
			continue
		}
		if err := c.compare(); err != nil {
			u := Unmet{Oracle: c.oracle, Message: err.Error(), Within: longest}
			if d := (*Difference)(nil); errors.As(err, &d) {
				u.Resource, u.Path = d.Resource, d.Path
				u.blamePredecessor(d, check)
			}
			unmet = append(unmet, u)
		}
	}
	return unmet, exempt
}

// FirstViolated returns a failure for the first invariant that does not hold, at the given step and time; nil
// if all hold.
func FirstViolated(all []invariant.Invariant, check func(invariant.Invariant) error, step int, at time.Duration) *history.Failure {
	for _, i := range all {
		if err := check(i); err != nil {
			return &history.Failure{Oracle: i.Name, Message: err.Error(), Step: max(step, 0), At: at}
		}
	}
	return nil
}

// WholeRecord checks the rules for the record of a whole run, and returns nil if they hold.
func WholeRecord(p Policy, view invariant.View, check func(invariant.Invariant, invariant.View) error, at time.Duration) *history.Failure {
	if !p.Checks(invariant.AutomaticHotLoop) {
		return nil
	}
	last := len(view.Run().Steps) - 1
	hotLoop := func(i invariant.Invariant) error { return check(i, untrusted(p, view)) }
	return FirstViolated([]invariant.Invariant{invariant.DefaultHotLoop}, hotLoop, last, at)
}

// untrusted returns a view whose record has no starts of trusted actors: a rule about controllers applies to the
// actors that a record starts.
func untrusted(p Policy, view invariant.View) invariant.View {
	if len(p.Trusted) == 0 {
		return view
	}
	run := *view.Run()
	run.Steps = slices.DeleteFunc(slices.Clone(run.Steps), func(s history.Step) bool {
		return IsTrusted(p.Trusted, s.Actor) && s.Kind == history.Start
	})
	return viewOf{view, &run}
}

// viewOf is a view with another record.
type viewOf struct {
	invariant.View
	run *history.Run
}

func (v viewOf) Run() *history.Run { return v.run }
