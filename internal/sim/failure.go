package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// Failure is a run that violated an invariant. One that reproduces is shrunk.
type Failure struct {
	Plan Plan
	Run  *history.Run
	// FoundAfter is how many runs it took to find it.
	FoundAfter int
	// FoundFaults and FoundSteps are its size when it was found.
	FoundFaults, FoundSteps int
	// Tally counts the repeats of the plan.
	Tally
	// WithoutFaults counts the runs of the plan without faults, if some of them failed in the same way but too
	// few to do without the faults. Shrunk is the plan before a delay was added to raise the rate; nil if none
	// was added.
	WithoutFaults Tally
	Shrunk        *Shrunk
	// Times is how many runs of the search failed in this way, without repeats. Only the first one was
	// repeated and shrunk.
	Times int
	// ShrinkRuns is how many runs shrinking took.
	ShrinkRuns int
	// Live says that the runs use the machine's clock: no two are identical.
	Live bool
	// Nearest is the most similar passing run; nil if none is known.
	Nearest *history.Run
}

// Grade says how reliably the failure reproduces.
func (f *Failure) Grade() string {
	switch {
	case f.Repeats == 0:
		return "not repeated"
	case f.Live:
		return fmt.Sprintf("reproduced %d of %d", f.Same, f.Repeats)
	case f.Identical == f.Repeats:
		return fmt.Sprintf("%d/%d identical", f.Identical, f.Repeats)
	}
	return fmt.Sprintf("%d/%d the same failure, %d/%d identical", f.Same, f.Repeats, f.Identical, f.Repeats)
}

// Summary returns the summary of the failure for people. cause is one sentence that explains it, and of is
// the number of runs.
func (f *Failure) Summary(cause, of string) verdict.Summary {
	return verdict.Summary{
		Run: f.Run, Nearest: f.Nearest, Cause: cause, FoundIn: f.FoundAfter, Of: of, Grade: f.Grade(),
		ShrinkRuns: f.ShrinkRuns, FoundFaults: f.FoundFaults, FoundSteps: f.FoundSteps, Needs: f.Needs(),
	}
}

// Needs says what the failure needs, if that is not just the faults of its plan: that it needs none, that it is
// rare without them, or that a delay was added only to raise its rate. Otherwise it is empty.
func (f *Failure) Needs() string {
	needs := ""
	switch rare := f.Same < f.Repeats; {
	case f.Shrunk != nil && len(f.Shrunk.Faults) == 0:
		return fmt.Sprintf("needs no fault: a timing race, %s without faults; the delay raises the rate to %s", f.Shrunk.ratio(), f.ratio())
	case f.Shrunk != nil:
		needs = fmt.Sprintf("a timing race, %s with %s; the longer or additional delay raises the rate to %s", f.Shrunk.ratio(), strings.Join(fault.Strings(f.Shrunk.Faults), "; "), f.ratio())
	case len(f.Plan.Faults) == 0 && !f.Plan.Schedule.IsZero():
		return "needs no fault, only the order of the schedule"
	case len(f.Plan.Faults) == 0 && rare:
		return fmt.Sprintf("needs no fault: a timing race, %s without faults", f.ratio())
	case len(f.Plan.Faults) == 0:
		return "needs no fault"
	}
	if t := f.WithoutFaults; t.Same > 0 {
		return strings.TrimPrefix(fmt.Sprintf("%s; less often without faults: %s", needs, t.ratio()), "; ")
	}
	return needs
}

// ratio returns, for example, "7 of 20".
func (t Tally) ratio() string { return fmt.Sprintf("%d of %d", t.Same, t.Repeats) }

// fired partitions the faults of a run's plan: fired are those that a step of the record names; hidden those
// that met a request or an event, but that no step names, because another fault acted on the same one.
//
// A delay whose end the run did not reach is named by no step either. It counts as fired.
func fired(out *Outcome) (named, hidden []fault.Fault) {
	texts := map[string]bool{}
	for n := range out.Run.Steps {
		texts[out.Run.Steps[n].Fault] = true
	}
	for _, f := range out.Plan.Faults {
		met := !slices.Contains(out.Unmet, f)
		switch {
		case texts[f.String()], met && f.Kind.IsDelay():
			named = append(named, f)
		case met:
			hidden = append(hidden, f)
		}
	}
	return named, hidden
}

// withFaults returns a plan that differs in its faults only.
func (p Plan) withFaults(faults []fault.Fault) Plan {
	p.Faults = faults
	return p
}
