package sim

import (
	"context"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// Plan describes one run. The same plan gives the same run, as far as the world is deterministic.
type Plan struct {
	// Seed decides everything that is random: names, UIDs, jitter.
	Seed uint64
	// Faults are injected.
	Faults []fault.Fault
	// Expect checks the state of the quiescent run; nil accepts any. A run goes on until it is
	// satisfied, within its timeout.
	Expect func(verdict.State) error
	// Learn marks a run without faults with which the others are compared.
	Learn bool
	// Exempt has the names of invariants that runs without faults already violate.
	Exempt map[string]bool
	// Objects asks for a record with the contents of objects (history.Change), for people to read.
	// It does not change the steps of the run.
	Objects bool
}

// Outcome is the result of a run.
type Outcome struct {
	Run *history.Run
	// State is the final state of a run to learn from; nil if the run was interrupted.
	State verdict.State
	// Restricted says that the test or scenario allows only the faults of Patterns.
	Restricted bool
	Patterns   []fault.Fault
	// Seen has the names of the invariants that must hold sometimes, and whether they did.
	Seen map[string]bool

	// Final says that the plan must not be played again (the run cannot be stopped): the failure is
	// neither repeated nor shrunk.
	Final bool
	// Exempt has, for a run without faults, the names of the exemptible invariants that it violated.
	Exempt []string

	// Reports are observations that violate no invariant, a line each.
	Reports []string

	// Plan is filled in by the search.
	Plan Plan

	candidates []fault.Fault
}

// World plays plans, as many at a time as Options.Parallel says.
type World interface {
	// Play plays one plan. An error is about the world itself (it could not be built); what a
	// controller does wrong is in the outcome's Run.
	Play(ctx context.Context, p Plan) (*Outcome, error)
}
