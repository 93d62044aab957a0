package verdict

import (
	"fmt"
	"time"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// The rules that every run must satisfy, in addition to those of its test or scenario.
var (
	// atQuiescence must hold when a run is quiescent.
	atQuiescence = []invariant.Invariant{invariant.Deleted(), invariant.UniqueOwnerUID()}
	// unlessViolatedWithoutFaults must hold as well, unless the runs without faults already violate them:
	// without a garbage collector, for example, orphans are not the fault of the controller.
	unlessViolatedWithoutFaults = []invariant.Invariant{invariant.NoOrphans()}
	// wholeRecord must hold for the record of a whole run.
	wholeRecord = []invariant.Invariant{invariant.DefaultHotLoop}
)

// BaselineOracle names the rule that a run ends in the same state as the runs without faults.
const BaselineOracle = "ends as without faults"

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
			unmet = append(unmet, Unmet{e.Oracle(), err.Error(), e.Within})
		}
	}
	longest := f.Longest()
	for _, i := range atQuiescence {
		if err := check(i); err != nil {
			unmet = append(unmet, Unmet{i.Name, err.Error(), longest})
		}
	}
	for _, i := range unlessViolatedWithoutFaults {
		err := check(i)
		switch {
		case err == nil:
		case f.Learn:
			exempt = append(exempt, i.Name)
		case !f.Exempt[i.Name]:
			unmet = append(unmet, Unmet{i.Name, err.Error(), longest})
		}
	}
	if f.Baseline != nil && len(unmet) == 0 {
		if err := f.Baseline(); err != nil {
			unmet = append(unmet, Unmet{BaselineOracle, err.Error(), longest})
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
func WholeRecord(check func(invariant.Invariant) error, step int, at time.Duration) *history.Failure {
	return FirstViolated(wholeRecord, check, step, at)
}
