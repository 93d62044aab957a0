package stages

import (
	"sync/atomic"
	"time"
)

// Stats contains counts of an engine since it started.
type Stats struct {
	// Objects are the known objects, Planned those of them that have a stage planned.
	Objects, Planned int
	// Plays are the stages that were run, including those that wrote nothing.
	Plays int64
	// Writes are the updates, Deletes the deletes that the API accepted.
	Writes, Deletes int64
	// Conflicts are the writes that were rejected because the object had changed or was deleted; Failures are
	// all other errors.
	Conflicts, Failures int64
	// Troubles is how often a permanent problem was reported, as an Event on the object: a template that
	// fails, a patch that the API rejects, a delay that cannot be parsed.
	Troubles int64
	// Late is the longest time from the due time of a stage to its run.
	Late time.Duration

	// Leases is how many leases there are; Renewals succeeded, LeaseFailures failed.
	Leases                  int
	Renewals, LeaseFailures int64
	// LeaseLate is the longest time from the due time of a renewal to its success; LeaseAge is the age of the
	// oldest renewal.
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
