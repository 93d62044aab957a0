package stages

import (
	"sync/atomic"
	"time"
)

// Stats is what an engine has done since it started.
type Stats struct {
	// Objects known, and those of them with a stage planned.
	Objects, Planned int
	// Plays is stages carried out, also those that had nothing to write.
	Plays int64
	// Writes is updates, Deletes deletes that the API took.
	Writes, Deletes int64
	// Conflicts is writes rejected because the object had changed or was deleted; Failures is all other errors.
	Conflicts, Failures int64
	// Troubles is how often a permanent problem was reported, as an Event on the object: a template that
	// fails, a patch that the API rejects, a delay that cannot be parsed.
	Troubles int64
	// Late is the longest time from a stage falling due to its being played.
	Late time.Duration

	// Leases kept, and renewals that succeeded and failed.
	Leases                  int
	Renewals, LeaseFailures int64
	// LeaseLate is the longest a renewal came after it was due; LeaseAge is how
	// long ago the lease renewed longest ago was.
	LeaseLate, LeaseAge time.Duration
}

type counters struct {
	plays, writes, deletes, conflicts, failures, troubles, latest atomic.Int64
	renewals, leaseFailures, leaseLatest                          atomic.Int64
}

func (c *counters) late(by time.Duration)      { raise(&c.latest, int64(by)) }
func (c *counters) leaseLate(by time.Duration) { raise(&c.leaseLatest, int64(by)) }

func raise(most *atomic.Int64, to int64) {
	for {
		now := most.Load()
		if to <= now || most.CompareAndSwap(now, to) {
			return
		}
	}
}

// Stats may be called at any time.
func (e *StageEngine) Stats() Stats {
	c := &e.counters
	s := Stats{
		Plays: c.plays.Load(), Writes: c.writes.Load(), Deletes: c.deletes.Load(),
		Conflicts: c.conflicts.Load(), Failures: c.failures.Load(), Troubles: c.troubles.Load(), Late: time.Duration(c.latest.Load()),
		Renewals: c.renewals.Load(), LeaseFailures: c.leaseFailures.Load(), LeaseLate: time.Duration(c.leaseLatest.Load()),
	}
	s.Objects, s.Planned = e.table.size()
	s.Leases, s.LeaseAge = e.leases.lateness(e.options.Clock.Now())
	return s
}
