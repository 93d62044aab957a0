package rehearsal

import (
	"fmt"
	"time"

	"github.com/rehearse-k8s/rehearse/invariant"
)

// atRest are promises of every scenario, once a run has come to rest.
var atRest = []invariant.Invariant{invariant.Deleted(), invariant.UniqueOwnerUID()}

// unless are those that are not judged where runs without faults break them: without a
// garbage collector in the world orphans are nobody's fault.
var unless = []invariant.Invariant{invariant.NoOrphans()}

// byChance is what hangs by a hair in a run by the machine's clock: which of several nodes a
// pod is bound to, and what its addresses are there. Where it has to be on one, its affinity
// says so too.
var byChance = []string{".spec.nodeName", ".status.hostIP", ".status.hostIPs", ".status.podIP", ".status.podIPs"}

// broken is a promise that does not hold at rest, and how long it may yet take.
type broken struct {
	oracle, message string
	within          time.Duration
}

// unkept are the promises that do not hold at the end of a run as it is now. The lock is held.
func (j *judge) unkept() (all []broken) {
	j.exempt = nil // what was broken at an earlier rest may hold at the last one
	x := j.examine(true)
	patience := j.run.arena.lengths.patience
	for _, p := range x.promised {
		patience = max(patience, p.Within)
	}
	if f := x.failure; f != nil {
		return []broken{{f.Oracle, f.Message, 0}}
	}
	for _, p := range x.promised {
		if err := p.Check(x.end); err != nil {
			all = append(all, broken{fmt.Sprintf("%s, within %s", p.Name, p.Within), err.Error(), p.Within})
		}
	}
	for _, i := range atRest {
		if err := i.Check(x.end); err != nil {
			all = append(all, broken{i.Name, err.Error(), patience})
		}
	}
	for _, i := range unless {
		switch err := i.Check(x.end); {
		case err == nil:
		case j.run.plan.Learn:
			j.exempt = append(j.exempt, i.Name)
		case !j.run.plan.Exempt[i.Name]:
			all = append(all, broken{i.Name, err.Error(), patience})
		}
	}
	if expect := j.run.plan.Expect; expect != nil && !j.run.arena.o.Scenario.EndsVary && len(all) == 0 {
		if err := expect(j.truth.State(byChance...)); err != nil {
			all = append(all, broken{"ends as without faults", err.Error(), patience})
		}
	}
	return all
}

// rest waits, once the story is over, until the world has come to rest and every promise
// holds, or one has not held for too long.
func (r *run) rest() {
	ending := r.elapsed()
	tick := time.NewTicker(10 * pace)
	defer tick.Stop()
	var asked, took time.Duration
	for {
		select {
		case <-tick.C:
		case <-r.judge.over:
			return
		case <-r.ctx.Done():
			return
		}
		if r.held() {
			ending = r.elapsed()
			continue
		}
		now := r.elapsed()
		if now < asked+10*took { // to look takes a tenth of the time at most
			continue
		}
		if r.restsSince(ending) {
			return
		}
		asked = r.elapsed()
		took = asked - now
	}
}

// restsSince decides whether a run whose story ended at a time is over.
func (r *run) restsSince(ending time.Duration) bool {
	j := r.judge
	j.mu.Lock()
	defer j.mu.Unlock()
	now := r.elapsed()
	late := ending + j.heldFor
	if now-j.lastWrite < r.arena.lengths.calm {
		if now < late+r.arena.lengths.restless {
			return false
		}
		j.fail("comes to rest", fmt.Sprintf("somebody still writes %s after the story: %s", (now-ending).Round(time.Millisecond), j.examine(true).record.LastWriter()))
		return true
	}
	all := j.unkept()
	for _, b := range all {
		if now > late+b.within {
			j.fail(b.oracle, b.message)
			return true
		}
	}
	return len(all) == 0
}
