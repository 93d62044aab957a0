package rehearsal

import (
	"time"

	"github.com/rehearse-k8s/rehearse/internal/verdict"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// schedulingPaths are fields that differ between two runs on the machine's clock: the node of a pod, and its
// addresses there. A pod that requires one node has an affinity, which is compared.
var schedulingPaths = []string{".spec.nodeName", ".status.hostIP", ".status.hostIPs", ".status.podIP", ".status.podIPs"}

// unmet returns the rules that do not hold at the current end of the run. The caller holds the lock.
func (j *monitor) unmet() []verdict.Unmet {
	x := j.evaluate(true)
	if f := x.failure; f != nil {
		return []verdict.Unmet{{Oracle: f.Oracle, Message: f.Message}}
	}
	final := verdict.Final{Timeout: j.run.harness.timeouts.end, Learn: j.run.plan.Learn, Exempt: j.run.plan.Exempt}
	for _, e := range x.eventually {
		final.Eventually = append(final.Eventually, verdict.Eventually(e))
	}
	if expect := j.run.plan.Expect; expect != nil && !j.run.harness.o.Scenario.EndsVary {
		final.Baseline = func() error { return expect(j.objects.State(schedulingPaths...)) }
	}
	var unmet []verdict.Unmet
	unmet, j.exempt = final.Unmet(func(i invariant.Invariant) error { return i.Check(x.end) })
	return unmet
}

// awaitEnd waits, after the last step of the scenario, until the run is over or has failed.
func (r *run) awaitEnd() {
	ending := r.elapsed()
	tick := time.NewTicker(10 * pollInterval)
	defer tick.Stop()
	var asked, took time.Duration
	for {
		select {
		case <-tick.C:
		case <-r.monitor.decided:
			return
		case <-r.ctx.Done():
			return
		}
		if r.isHolding() {
			ending = r.elapsed()
			continue
		}
		now := r.elapsed()
		if now < asked+10*took { // checks take a tenth of the time at most
			continue
		}
		if r.isOver(ending) {
			return
		}
		asked = r.elapsed()
		took = asked - now
	}
}

// isOver decides whether the run is over. ended is when the last step of the scenario ended.
func (r *run) isOver(ended time.Duration) bool {
	j := r.monitor
	j.mu.Lock()
	defer j.mu.Unlock()
	rules := verdict.Quiescence{Quiet: r.harness.timeouts.quiet, Timeout: r.harness.timeouts.writes, QuietFirst: true}
	d := rules.Decide(verdict.Moment{Now: r.elapsed(), Ended: ended, LastWrite: j.lastWrite, Held: j.heldFor},
		j.unmet, func() string { return j.evaluate(true).record.LastWriter() })
	if d.Failure != nil {
		j.fail(d.Failure.Oracle, d.Failure.Message)
	}
	return d.Over || d.Failure != nil
}
