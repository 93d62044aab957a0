package rehearsal

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/inject"
	"github.com/rehearse-k8s/rehearse/internal/proxy"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// monitor follows the world of a run and checks whether the invariants hold.
//
// A write and its author become known at different times: the store reports the write at once, the answer
// names the author later. So the monitor checks invariants on the record, which contains both, by replaying
// it from its first step (evaluate).
type monitor struct {
	run     *run
	decided chan struct{} // closed when the run has its verdict

	mu             sync.Mutex
	objects        *follower
	collection     inject.Collection
	owners         map[string]bool // by UID: objects that faults have deleted, without their dependents
	collectUntil   time.Duration   // until when the collection of dependents delays the end of the run
	changes        []verdict.Change
	failure        *history.Failure
	writes         int // of all actors, without bookkeeping
	written        verdict.Writes
	timed          []timedChange   // the writes without bookkeeping
	laterStates    []verdict.State // of a run that is observed after its end
	lastPoll       time.Duration
	heldFor        time.Duration // for how long faults have delayed something
	delayed        []*delayedAction
	nextCheck      time.Duration // when the invariants are checked again
	nextRhythm     time.Duration // when periodic writes are looked for again
	exempt         []string
	lastEvaluation *evaluation // of the whole run
	confirming     bool        // a violation is confirmed only when all writes are known
	unknown        error       // why the failure at the end of the run is not certain
}

// timedChange is the time of a change, and its index.
type timedChange struct {
	at    time.Duration
	index int
}

// delayedAction is an action that happens when the time of a fault is over.
type delayedAction struct {
	done   chan struct{}
	since  time.Duration
	until  time.Duration // 0: not limited by time
	writes int           // 0: not limited by writes
}

func newMonitor(r *run, objects *follower) *monitor {
	return &monitor{run: r, decided: make(chan struct{}), objects: objects}
}

// pollInterval is how often the monitor reads the changes of the world. No change is missed between polls.
const pollInterval = 5 * time.Millisecond

// follow polls the world until ctx is done.
func (j *monitor) follow(ctx context.Context) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			j.poll()
		}
	}
}

// poll takes the new writes, releases delayed actions that are due, and from time to time checks the
// invariants.
func (j *monitor) poll() {
	held := j.run.isHolding()
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.run.elapsed()
	if held {
		j.heldFor += now - j.lastPoll
	}
	j.lastPoll = now
	j.takeWrites(now)
	j.releaseDue(now)
	if now >= j.nextCheck && j.failure == nil && !j.confirming {
		if x := j.evaluate(false); x.failure != nil {
			j.suspect(x.failure)
		}
		// Checking a long record takes a while. Checks take a tenth of the time at most.
		after := j.run.elapsed()
		j.nextCheck = after + max(checkInterval, 10*(after-now))
	}
}

// checkInterval is how often invariants are checked during a run.
const checkInterval = 300 * time.Millisecond

// takeWrites takes the new writes of the source. The caller holds the lock.
func (j *monitor) takeWrites(now time.Duration) {
	changes, err := j.objects.follow()
	if err != nil {
		j.fail("the record is whole", err.Error())
	}
	for _, c := range changes {
		at := j.place(c)
		if !verdict.Bookkeeping(c.Key) && (j.run.world.unrecorded == nil || !j.run.world.unrecorded(c.Key)) {
			j.writes++
			j.written.Add(now, j.run.harness.timeouts.quiet)
			j.timed = append(j.timed, timedChange{now, at})
		}
	}
	j.collect(changes)
}

// place adds a change to those of the run, before those with a higher revision, and returns its index. A change of an
// object that another API server stores keeps its place. The caller holds the lock.
func (j *monitor) place(c verdict.Change) int {
	at := len(j.changes)
	aggregated := j.run.world.aggregated
	for i := at - 1; i >= 0 && (aggregated == nil || !aggregated(c.Key)); i-- {
		if aggregated != nil && aggregated(j.changes[i].Key) {
			continue
		}
		if j.changes[i].Revision < c.Revision {
			break
		}
		at = i
	}
	if at < len(j.changes) {
		for n := range j.timed {
			if j.timed[n].index >= at {
				j.timed[n].index++
			}
		}
	}
	j.changes = slices.Insert(j.changes, at, c)
	return at
}

// releaseDue releases the delayed actions that are due. The caller holds the lock.
func (j *monitor) releaseDue(now time.Duration) {
	left := j.delayed[:0]
	for _, w := range j.delayed {
		quiet := now-max(j.written.Last, w.since) > proxy.Quiet
		if w.until > 0 && now >= w.until || w.writes > 0 && j.writes >= w.writes || w.until == 0 && (quiet || now-w.since > proxy.Longest) {
			close(w.done)
		} else {
			left = append(left, w)
		}
	}
	clear(j.delayed[len(left):])
	j.delayed = left
}

// released returns a channel that is closed when the time of a fault is over: after a duration, after a
// number of writes by any actor, or when no actor writes any more.
func (j *monitor) released(f fault.Fault) <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	w := &delayedAction{done: make(chan struct{}), since: j.run.elapsed()}
	switch {
	case f.For > 0:
		w.until = w.since + f.For
	case f.Writes > 0:
		w.writes = j.writes + f.Writes
	}
	j.delayed = append(j.delayed, w)
	return w.done
}

// fail gives the run its verdict. The caller holds the lock.
func (j *monitor) fail(oracle, message string) {
	j.failWith(&history.Failure{Oracle: oracle, Message: message, At: j.run.elapsed()})
}

// failWith gives the run its verdict. The caller holds the lock.
func (j *monitor) failWith(f *history.Failure) {
	if j.failure == nil {
		j.failure = f
		close(j.decided)
	}
}

// check checks one invariant on the current state.
func (j *monitor) check(i invariant.Invariant) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.takeWrites(j.run.elapsed()) // include the effect of the step before
	return i.Check(j.objects)
}

// quietFor returns how long no actor has written anything, apart from periodic writes. The caller has waited for
// that since a time.
func (j *monitor) quietFor(since, quiet time.Duration) time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.run.elapsed() - j.lastOtherWrite(since, quiet)
}

// holdTime returns how long faults have delayed something.
func (j *monitor) holdTime() time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.heldFor
}

// await waits until holds returns true. The time during which faults delay something extends the limit.
func (j *monitor) await(within time.Duration, holds func() bool) (bool, error) {
	began, before := j.run.elapsed(), j.holdTime()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-j.decided:
			return false, errRunOver
		case <-j.run.ctx.Done():
			return false, j.run.ctx.Err()
		}
		if holds() {
			return true, nil
		}
		// A controller that backed off during the delay may wait for as long again.
		if j.run.elapsed() > began+within+2*(j.holdTime()-before) {
			return false, nil
		}
	}
}
