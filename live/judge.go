package live

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/proxy"
	"github.com/rehearse-k8s/rehearse/scenario"
	"github.com/rehearse-k8s/rehearse/truth"
)

// judge follows a run's world and looks whether promises hold.
type judge struct {
	run      *run
	promises scenario.Promises
	over     chan struct{} // closed with the verdict

	mu        sync.Mutex
	truth     *truth.Truth
	changes   []history.Change
	failure   *history.Failure
	failed    int64 // the revision at which it was seen; 0: at rest
	writes    int   // of anybody, but for bookkeeping
	lastWrite time.Duration
	looked    time.Duration
	heldFor   time.Duration // how long faults have kept something back
	waits     []*waiting
	seen      map[string]bool
	exempt    []string
}

// waiting is something that is to happen when a fault's time is over.
type waiting struct {
	done   chan struct{}
	since  time.Duration
	until  time.Duration // 0: not by time
	writes int           // 0: not by writes
}

func newJudge(r *run, t *truth.Truth) *judge {
	s := r.arena.o.Scenario
	j := &judge{run: r, promises: s.Promises(), over: make(chan struct{}), truth: t, seen: map[string]bool{}}
	for _, i := range j.promises.Sometimes {
		j.seen[i.Name] = false
	}
	return j
}

// pace is how often the world is looked at. Nothing is overseen in between: writes are taken
// one after the other.
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

// look takes in what was written and judges each state in between.
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
}

// take takes in what was written. The lock is held.
func (j *judge) take(now time.Duration) {
	err := j.truth.FollowEach(func(c truth.Change) bool {
		j.changes = append(j.changes, j.truth.Contents([]truth.Change{c})...)
		if !truth.Bookkeeping(c.Key) {
			j.writes++
			j.lastWrite = now
		}
		if j.failure != nil {
			return true // what happens after it belongs to the picture
		}
		for _, i := range j.promises.Always {
			if err := i.Check(j.truth); err != nil {
				j.fail(i.Name, err.Error(), c.Revision)
				break
			}
		}
		for _, i := range j.promises.Sometimes {
			if !j.seen[i.Name] && i.Check(j.truth) == nil {
				j.seen[i.Name] = true
			}
		}
		return true
	})
	if err != nil {
		j.fail("the record is whole", err.Error(), 0)
	}
}

// wake lets happen what faults have delayed. The lock is held.
func (j *judge) wake(now time.Duration) {
	left := j.waits[:0]
	for _, w := range j.waits {
		quiet := now-max(j.lastWrite, w.since) > proxy.Quiet
		if w.until > 0 && now >= w.until || w.writes > 0 && j.writes >= w.writes || w.until == 0 && quiet {
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
func (j *judge) fail(oracle, message string, revision int64) {
	if j.failure != nil {
		return
	}
	j.failure = &history.Failure{Oracle: oracle, Message: message, At: j.run.elapsed()}
	j.failed = revision
	close(j.over)
}

// check looks whether one promise holds now.
func (j *judge) check(i invariant.Invariant) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return i.Check(j.truth)
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
		if j.run.elapsed() > began+within+2*(j.delayed()-before) {
			return false, nil
		}
	}
}

// atRest are promises of every scenario, once a run has come to rest.
var atRest = []invariant.Invariant{invariant.Deleted(), invariant.UniqueOwnerUID()}

// unless are those that are not judged where runs without faults break them: without a
// garbage collector in the world orphans are nobody's fault.
var unless = []invariant.Invariant{invariant.NoOrphans()}

// broken is a promise that does not hold at rest, and how long it may yet take.
type broken struct {
	oracle, message string
	within          time.Duration
}

// unkept are the promises that do not hold now. The lock is held.
func (j *judge) unkept() (all []broken) {
	j.exempt = nil // what was broken at an earlier rest may hold at the last one
	patience := j.patience()
	for _, p := range j.promises.Eventually {
		if err := p.Check(j.truth); err != nil {
			all = append(all, broken{fmt.Sprintf("%s, within %s", p.Name, p.Within), err.Error(), p.Within})
		}
	}
	for _, i := range atRest {
		if err := i.Check(j.truth); err != nil {
			all = append(all, broken{i.Name, err.Error(), patience})
		}
	}
	for _, i := range unless {
		switch err := i.Check(j.truth); {
		case err == nil:
		case j.run.plan.Learn:
			j.exempt = append(j.exempt, i.Name)
		case !j.run.plan.Exempt[i.Name]:
			all = append(all, broken{i.Name, err.Error(), patience})
		}
	}
	if expect := j.run.plan.Expect; expect != nil && !j.run.arena.o.Scenario.EndsVary && len(all) == 0 {
		if err := expect(j.truth.State()); err != nil {
			all = append(all, broken{"ends as without faults", err.Error(), patience})
		}
	}
	return all
}

// patience is how long after the story a world may take.
func (j *judge) patience() time.Duration {
	d := j.run.arena.lengths.patience
	for _, p := range j.promises.Eventually {
		d = max(d, p.Within)
	}
	return d
}

// rest waits, once the story is over, until the world has come to rest and every promise
// holds, or one has not held for too long.
func (r *run) rest() {
	j := r.judge
	ending := r.elapsed()
	tick := time.NewTicker(4 * pace)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-j.over:
			return
		case <-r.ctx.Done():
			return
		}
		if r.held() {
			ending = r.elapsed()
			continue
		}
		if r.restsSince(ending) {
			return
		}
	}
}

// restsSince decides whether a run whose story ended at a time is over.
func (r *run) restsSince(ending time.Duration) bool {
	j := r.judge
	j.mu.Lock()
	defer j.mu.Unlock()
	now := r.elapsed()
	calm := now-max(j.lastWrite, 0) >= r.arena.lengths.calm
	if !calm && now < ending+j.patience()+j.heldFor {
		return false
	}
	all := j.unkept()
	switch {
	case calm && len(all) == 0:
		return true
	case !calm:
		j.fail("comes to rest", fmt.Sprintf("somebody still writes %s after the story", (now-ending).Round(time.Millisecond)), 0)
		return true
	}
	for _, b := range all {
		if now > ending+b.within+j.heldFor {
			j.fail(b.oracle, b.message, 0)
			return true
		}
	}
	return false
}
