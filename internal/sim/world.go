package sim

import (
	"context"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// Plan describes one run. If the world is deterministic, the same plan gives the same run.
type Plan struct {
	// Seed determines every random value: names, UIDs, jitter.
	Seed uint64
	// Faults are the faults to inject.
	Faults []fault.Fault
	// Schedule decides which of several actions is next; the zero value: the oldest. A world of real processes ignores it.
	Schedule history.Schedule
	// Expect checks the state of the quiescent run; nil accepts any. A run continues until Expect returns
	// nil, or until its timeout.
	Expect func(verdict.State) error
	// Generations checks that controllers have observed the newest specs, as they do without faults; nil accepts any
	// state.
	Generations func(verdict.State) error
	// Observe marks a run without faults that continues after its end, to learn which fields change later.
	Observe bool
	// Vary marks a run without faults whose schedule differs from that of the first: the user acts at other times.
	Vary bool
	// Learn marks a run without faults with which the others are compared.
	Learn bool
	// Exempt has the names of invariants that runs without faults already violate.
	Exempt map[string]bool
	// Periodic are the periodic writes that runs without faults have: a run with them is quiescent.
	Periodic []verdict.Periodic
	// Objects asks for a record with the contents of objects (history.Change), for people to read.
	// It does not change the steps of the run.
	Objects bool

	// Kept marks the plan of an earlier failure.
	Kept bool

	// extends is the base of a random combination of faults, for the search, and inSituation marks one that acts in a new situation.
	extends     *base
	inSituation bool
	// expects is what Expect and Generations compare with, for a Remote.
	expects *expectation
}

// extended reports whether the search made the plan from another one.
func (p *Plan) extended() bool { return p.extends != nil || p.inSituation }

// Outcome is the result of a run.
type Outcome struct {
	Run *history.Run
	// State is the final state of a run to learn from, or of one whose final state is the failure; nil if the run was
	// interrupted. Later are further states of a run that was observed after its end.
	State verdict.State
	Later []verdict.State
	// EndsVary: runs may end in different states, so final states are not compared.
	EndsVary bool
	// Restricted: the test or scenario allows only the faults of Patterns.
	Restricted bool
	Patterns   []fault.Fault
	// Overlapping are patterns of two instances at once, which are tried in addition to the faults of the level.
	Overlapping []fault.Fault
	// Except are patterns of faults that are never tried, and Trusted the actors that get no faults.
	Except  []fault.Fault
	Trusted []string
	// Seen maps the names of the invariants that must hold sometimes to whether they held.
	Seen map[string]bool

	// Final: the plan must not be played again, because the run cannot be stopped. The failure is neither
	// repeated nor shrunk.
	Final bool
	// Exempt lists, for a run without faults, the exemptible invariants that it violated.
	Exempt []string

	// Periodic are, for a run without faults, its periodic writes.
	Periodic []verdict.Periodic

	// Choices is the number of steps at which several chains of actions had one that could be next. 0: the world
	// cannot choose their order.
	Choices int

	// Unmet are the faults of the plan that met no request and no event.
	Unmet []fault.Fault

	// Reports are observations that violate no invariant, a line each.
	Reports []string

	// Plan is set by the search.
	Plan Plan

	discarded bool // by discardRejected: the search learns nothing from the run
}

// World plays plans, up to Options.Parallel at a time.
type World interface {
	// Play plays one plan. An error is about the world itself (it could not be built); the outcome's Run
	// reports what a controller did wrong.
	Play(ctx context.Context, p Plan) (*Outcome, error)
}
