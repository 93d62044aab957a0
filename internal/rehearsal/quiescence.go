package rehearsal

import (
	"slices"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/verdict"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// schedulingPaths are fields that differ between two runs on the machine's clock: the node of a pod, and its
// addresses there. A pod that requires one node has an affinity, which is compared.
var schedulingPaths = []verdict.Path{
	{Resource: "pods", Field: "spec.nodeName"}, {Resource: "pods", Field: "status.hostIP"}, {Resource: "pods", Field: "status.hostIPs"},
	{Resource: "pods", Field: "status.podIP"}, {Resource: "pods", Field: "status.podIPs"},
}

// policyOf returns what a scenario excludes from the automatic checks.
func policyOf(s *scenario.Scenario) verdict.Policy {
	p := verdict.Policy{Ignore: slices.Clone(schedulingPaths), Disabled: s.Disabled, Trusted: s.Trusted}
	for _, i := range s.Ignore {
		p.Ignore = append(p.Ignore, verdict.Path{Resource: i.Resource, Field: i.Path})
	}
	return p
}

// unmet returns the rules that do not hold at the current end of the run. The caller holds the lock.
func (j *monitor) unmet() []verdict.Unmet {
	x := j.evaluate(true)
	if f := x.failure; f != nil {
		return []verdict.Unmet{{Oracle: f.Oracle, Message: f.Message}}
	}
	final := verdict.Final{Timeout: j.run.harness.timeouts.differenceTimeout(j.run.plan.Periodic), Learn: j.run.plan.Learn, Exempt: j.run.plan.Exempt, Policy: j.run.harness.policy}
	for _, e := range x.eventually {
		final.Eventually = append(final.Eventually, verdict.Eventually(e))
	}
	if expect := j.run.plan.Expect; expect != nil {
		final.Baseline = func() error { return expect(j.objects.State(final.Policy.Ignore...)) }
	}
	if generations := j.run.plan.Generations; generations != nil {
		final.Generations = func() error { return generations(j.objects.State(final.Policy.Ignore...)) }
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
		over, waited := r.isOver(ending)
		if over {
			r.observe()
			return
		}
		asked = r.elapsed()
		took = asked - now - waited
	}
}

// observe follows a run that must be observed after its end, and keeps its states.
func (r *run) observe() {
	if !r.plan.Observe {
		return
	}
	j := r.monitor
	tick := time.NewTicker(10 * pollInterval)
	defer tick.Stop()
	var last uint64
	for end := r.elapsed() + r.harness.timeouts.observe; r.elapsed() < end; {
		select {
		case <-tick.C:
		case <-j.decided:
			return
		case <-r.ctx.Done():
			return
		}
		j.mu.Lock()
		if hash := j.objects.StateHash(); hash != last && len(j.laterStates) < maxLater {
			last, j.laterStates = hash, append(j.laterStates, j.objects.State(r.harness.policy.Ignore...))
		}
		j.mu.Unlock()
	}
}

// maxLater limits the states of a run that is observed after its end.
const maxLater = 200

// isOver decides whether the run is over. ended is when the last step of the scenario ended. In a cluster, the run
// fails only if it still does when every write until now is known; waited is how long isOver has waited for them.
func (r *run) isOver(ended time.Duration) (over bool, waited time.Duration) {
	j := r.monitor
	j.mu.Lock()
	defer j.mu.Unlock()
	d := r.decideEnd(ended)
	if complete := r.world.complete; complete != nil && d.Failure != nil && j.failure == nil {
		j.mu.Unlock()
		began := r.elapsed()
		err := complete(r.ctx)
		waited = r.elapsed() - began
		j.mu.Lock()
		if j.failure != nil {
			return true, waited
		}
		if err != nil {
			j.unknown = err
			return true, waited
		}
		j.takeWrites(r.elapsed())
		d = r.decideEnd(ended)
	}
	if d.Failure != nil {
		j.failWith(d.Failure)
	}
	return d.Over || d.Failure != nil, waited
}

// decideEnd decides whether the run is over, from the writes that are known. The caller holds the lock.
func (r *run) decideEnd(ended time.Duration) verdict.Decision {
	j := r.monitor
	rules := verdict.Quiescence{Quiet: r.harness.timeouts.quiet, Timeout: r.harness.timeouts.writes, QuietFirst: true, Optional: !r.harness.policy.Checks(invariant.AutomaticQuiescence)}
	lastFault := max(0, r.record.LastFault().Sub(r.started))
	return rules.Decide(verdict.Moment{Now: r.elapsed(), Ended: ended, LastWrite: j.lastOtherWrite(ended, rules.Quiet), BusySince: j.written.BusySince, Held: j.heldFor, LastFault: lastFault},
		j.unmet, func() string { return j.evaluate(true).record.LastWriter() })
}

// lastOtherWrite returns the time of the last write that is not periodic. The run waits since a time for a quiet
// time without such a write. The caller holds the lock.
func (j *monitor) lastOtherWrite(since, quiet time.Duration) time.Duration {
	now := j.run.elapsed()
	if !verdict.MayBePeriodic(now, j.written.Last, since, quiet) || now < j.nextRhythm {
		return j.written.Last
	}
	at, _ := j.rhythm(j.run.plan.Learn)
	// The search takes a tenth of the time at most.
	after := j.run.elapsed()
	j.nextRhythm = after + 10*(after-now)
	return at
}

// rhythm returns the time of the last write that is not periodic, and the periodic writes. The caller holds the lock.
func (j *monitor) rhythm(learn bool) (lastOther time.Duration, found []verdict.Periodic) {
	record := j.run.record.Record()
	steps := attributeChanges(record, j.changes, j.objects.Objects)
	activity := verdict.NewActivity(j.objects.Objects)
	for _, t := range j.timed {
		actor := ""
		if step := steps[t.index]; step >= 0 {
			actor = record.Steps[step].Actor
		}
		activity.Add(t.at, actor, j.changes[t.index])
	}
	return activity.Rhythm(learn, j.run.plan.Periodic)
}
