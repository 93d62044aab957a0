package rehearsal

import (
	"context"
	"sync"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/proxy"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// judge follows a run's world and looks whether promises hold.
//
// What was written and who wrote it become known at different times: the store tells the
// one at once, the answer tells the other. So promises are judged on the record, which has
// both, by showing them the run once more from its beginning (examine).
type monitor struct {
	run     *run
	decided chan struct{} // closed with the verdict

	mu             sync.Mutex
	objects        *follower
	changes        []verdict.Change
	failure        *history.Failure
	writes         int // of anybody, but for bookkeeping
	lastWrite      time.Duration
	lastPoll       time.Duration
	heldFor        time.Duration // how long faults have kept something back
	delayed        []*delayedAction
	nextCheck      time.Duration // when the promises are looked at again
	exempt         []string
	lastEvaluation *evaluation // of the whole run
}

// waiting is something that is to happen when a fault's time is over.
type delayedAction struct {
	done   chan struct{}
	since  time.Duration
	until  time.Duration // 0: not by time
	writes int           // 0: not by writes
}

func newMonitor(r *run, objects *follower) *monitor {
	return &monitor{run: r, decided: make(chan struct{}), objects: objects}
}

// pace is how often the world is looked at. Nothing is overseen in between.
const pollInterval = 5 * time.Millisecond

// follow looks at the world until ctx ends.
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

// look takes in what was written, lets happen what faults have delayed, and now and then
// looks whether the run has broken a promise.
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
	if now >= j.nextCheck && j.failure == nil {
		if x := j.evaluate(false); x.failure != nil {
			j.fail(x.failure.Oracle, x.failure.Message)
		}
		// A long record takes a while: that it is looked at takes a tenth of the time at most.
		after := j.run.elapsed()
		j.nextCheck = after + max(checkInterval, 10*(after-now))
	}
}

// examined is how often promises are looked at while a run goes on.
const checkInterval = 300 * time.Millisecond

// take takes in what was written. The lock is held.
func (j *monitor) takeWrites(now time.Duration) {
	changes, err := j.objects.follow()
	if err != nil {
		j.fail("the record is whole", err.Error())
	}
	for _, c := range changes {
		if !verdict.Bookkeeping(c.Key) && (j.run.world.unrecorded == nil || !j.run.world.unrecorded(c.Key)) {
			j.writes++
			j.lastWrite = now
		}
	}
	j.changes = append(j.changes, changes...)
}

// wake lets happen what faults have delayed. The lock is held.
func (j *monitor) releaseDue(now time.Duration) {
	left := j.delayed[:0]
	for _, w := range j.delayed {
		quiet := now-max(j.lastWrite, w.since) > proxy.Quiet
		if w.until > 0 && now >= w.until || w.writes > 0 && j.writes >= w.writes || w.until == 0 && (quiet || now-w.since > proxy.Longest) {
			close(w.done)
		} else {
			left = append(left, w)
		}
	}
	clear(j.delayed[len(left):])
	j.delayed = left
}

// heldBy is closed when a fault's time is over: after a time, after so many writes of
// anybody, or when nothing is written any more.
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

// fail ends the run with its verdict. The lock is held.
func (j *monitor) fail(oracle, message string) {
	if j.failure != nil {
		return
	}
	j.failure = &history.Failure{Oracle: oracle, Message: message, At: j.run.elapsed()}
	close(j.decided)
}

// check looks whether one promise holds now.
func (j *monitor) check(i invariant.Invariant) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.takeWrites(j.run.elapsed()) // what the step before has done is not to be overlooked
	return i.Check(j.objects)
}

// calm is for how long nobody has written anything.
func (j *monitor) quietFor() time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.run.elapsed() - j.lastWrite
}

// delayed is for how long faults have kept something back.
func (j *monitor) holdTime() time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.heldFor
}

// await waits until something holds; what is longer is what faults have kept back.
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
		// A controller whose tries failed for so long may rightly wait as long again.
		if j.run.elapsed() > began+within+2*(j.holdTime()-before) {
			return false, nil
		}
	}
}
