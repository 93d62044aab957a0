package sim

import (
	"context"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// Plan is what one run is to be like. The same plan gives the same run, as far as
// the world can make it so.
type Plan struct {
	// Seed decides everything that is random: names, UIDs, jitter.
	Seed uint64
	// Faults is what goes wrong.
	Faults []fault.Fault
	// Expect judges the state in which the run comes to rest; nil accepts any. A
	// run goes on until it is satisfied, within its patience.
	Expect func(State) error
	// Learn marks a run without faults from which the others are judged.
	Learn bool
	// Exempt are names of promises that are broken without faults already, by the
	// nature of the world.
	Exempt map[string]bool
	// Objects asks for a record that has the contents of objects (history.Change), for
	// people to read. It does not change how the run goes.
	Objects bool
}

// Outcome is what a run came to.
type Outcome struct {
	Run *history.Run
	// State is the world's at the end of a run to learn from; nil if it was broken off.
	State State
	// Restricted says that the run's story allows only the faults of Patterns.
	Restricted bool
	Patterns   []fault.Fault
	// Seen are the names of those things that should happen sometimes, and whether
	// they did.
	Seen map[string]bool

	// Final says that to play the plan again would do harm (it cannot be stopped): the
	// failure is neither confirmed nor made small.
	Final bool
	// Exempt are the names of promises that may be broken by the nature of the world
	// and were; of runs without faults only.
	Exempt []string

	// Reports are things worth telling that break no promise, a line each.
	Reports []string

	// Plan is filled in by the search.
	Plan Plan

	candidates []fault.Fault
}

// World carries out plans, as many at a time as Options.Parallel says.
type World interface {
	// Play carries out one plan. An error is about the world itself (it could not
	// be built), never about a controller: that is in the outcome's Run.
	Play(ctx context.Context, p Plan) (*Outcome, error)
}
