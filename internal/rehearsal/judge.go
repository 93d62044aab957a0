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
type judge struct {
	run  *run
	over chan struct{} // closed with the verdict

	mu        sync.Mutex
	objects   *follower
	changes   []verdict.Change
	failure   *history.Failure
	writes    int // of anybody, but for bookkeeping
	lastWrite time.Duration
	looked    time.Duration
	heldFor   time.Duration // how long faults have kept something back
	waits     []*waiting
	next      time.Duration // when the promises are looked at again
	exempt    []string
	last      *examination // of the whole run
}

// waiting is something that is to happen when a fault's time is over.
type waiting struct {
	done   chan struct{}
	since  time.Duration
	until  time.Duration // 0: not by time
	writes int           // 0: not by writes
}

func newJudge(r *run, objects *follower) *judge {
	return &judge{run: r, over: make(chan struct{}), objects: objects}
}

// pace is how often the world is looked at. Nothing is overseen in between.
const pace = 5 * time.Millisecond

// follow looks at the world until ctx ends.
func (j *judge) follow(ctx context.Context) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			j.look()
		}
	}
}

// look takes in what was written, lets happen what faults have delayed, and now and then
// looks whether the run has broken a promise.
func (j *judge) look() {
	held := j.run.held()
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.run.elapsed()
	if held {
		j.heldFor += now - j.looked
	}
	j.looked = now
	j.take(now)
	j.wake(now)
	if now >= j.next && j.failure == nil {
		if x := j.examine(false); x.failure != nil {
			j.fail(x.failure.Oracle, x.failure.Message)
		}
		// A long record takes a while: that it is looked at takes a tenth of the time at most.
		after := j.run.elapsed()
		j.next = after + max(examined, 10*(after-now))
	}
}

// examined is how often promises are looked at while a run goes on.
const examined = 300 * time.Millisecond

// take takes in what was written. The lock is held.
func (j *judge) take(now time.Duration) {
	changes, err := j.objects.follow()
	if err != nil {
		j.fail("the record is whole", err.Error())
	}
	for _, c := range changes {
		if !verdict.Bookkeeping(c.Key) && (j.run.place.others == nil || !j.run.place.others(c.Key)) {
			j.writes++
			j.lastWrite = now
		}
	}
	j.changes = append(j.changes, changes...)
}

// wake lets happen what faults have delayed. The lock is held.
func (j *judge) wake(now time.Duration) {
	left := j.waits[:0]
	for _, w := range j.waits {
		quiet := now-max(j.lastWrite, w.since) > proxy.Quiet
		if w.until > 0 && now >= w.until || w.writes > 0 && j.writes >= w.writes || w.until == 0 && (quiet || now-w.since > proxy.Longest) {
			close(w.done)
		} else {
			left = append(left, w)
		}
	}
	clear(j.waits[len(left):])
	j.waits = left
}

// heldBy is closed when a fault's time is over: after a time, after so many writes of
// anybody, or when nothing is written any more.
func (j *judge) heldBy(f fault.Fault) <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	w := &waiting{done: make(chan struct{}), since: j.run.elapsed()}
	switch {
	case f.For > 0:
		w.until = w.since + f.For
	case f.Writes > 0:
		w.writes = j.writes + f.Writes
	}
	j.waits = append(j.waits, w)
	return w.done
}

// fail ends the run with its verdict. The lock is held.
func (j *judge) fail(oracle, message string) {
	if j.failure != nil {
		return
	}
	j.failure = &history.Failure{Oracle: oracle, Message: message, At: j.run.elapsed()}
	close(j.over)
}

// check looks whether one promise holds now.
func (j *judge) check(i invariant.Invariant) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.take(j.run.elapsed()) // what the step before has done is not to be overlooked
	return i.Check(j.objects)
}

// calm is for how long nobody has written anything.
func (j *judge) calm() time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.run.elapsed() - j.lastWrite
}

// delayed is for how long faults have kept something back.
func (j *judge) delayed() time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.heldFor
}

// await waits until something holds; what is longer is what faults have kept back.
func (j *judge) await(within time.Duration, holds func() bool) (bool, error) {
	began, before := j.run.elapsed(), j.delayed()
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-j.over:
			return false, errOver
		case <-j.run.ctx.Done():
			return false, j.run.ctx.Err()
		}
		if holds() {
			return true, nil
		}
		// A controller whose tries failed for so long may rightly wait as long again.
		if j.run.elapsed() > began+within+2*(j.delayed()-before) {
			return false, nil
		}
	}
}
