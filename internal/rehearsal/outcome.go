package rehearsal

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// outcome returns the result of a run that has stopped. It is an error if the run seems to have failed, but the writes of
// the cluster are not all known. ctx is that of the run's caller.
func (r *run) outcome(ctx context.Context) (*sim.Outcome, error) {
	if r.world.catchUp != nil {
		r.world.catchUp(ctx, r.record.Revision())
	}
	r.record.End()
	j := r.monitor
	j.mu.Lock()
	defer j.mu.Unlock()
	j.takeWrites(r.elapsed()) // the last writes of clients that were stopped
	x, failure, unknown := j.finalVerdict(ctx)
	if failure == nil && unknown != nil {
		return nil, fmt.Errorf("a run seems to fail, but %w: the cluster is overloaded, or a watch does not work", unknown)
	}
	record := x.record
	for n, changes := range x.changes {
		record.Steps[n].Changes = j.objects.Contents(changes)
	}
	record.Failure = failure
	verdict.SetSwitch(record.Failure, verdict.InScenario)
	out := &sim.Outcome{Run: record, Seen: x.seen, Exempt: j.exempt, Except: r.harness.o.Scenario.Except, Trusted: r.harness.policy.Trusted, EndsVary: !r.harness.policy.Checks(invariant.AutomaticEndState), Unmet: r.record.Unmet()}
	if f := record.Failure; f != nil && f.Oracle == verdict.BaselineOracle {
		out.State = j.objects.State(r.harness.policy.Ignore...)
	}
	if r.plan.Learn && record.Failure == nil {
		_, out.Periodic = j.rhythm(true)
		out.State, out.Later = j.objects.State(r.harness.policy.Ignore...), j.laterStates
		clients := sets.New[string]()
		for i := range r.harness.o.Scenario.Clients {
			clients.Insert(r.harness.o.Scenario.Clients[i].Name)
		}
		if who := idleClient(clients, record); who != "" {
			record.Inconclusive = fmt.Sprintf("client %s wrote nothing in a run without faults: the run tests nothing. Check that the steps of the scenario give it work", who)
		}
	}
	_, out.Reports = verdict.StaleOwnWrites(r.harness.policy, record)
	return out, nil
}

// firstFailure returns the first violation: of an invariant that must always hold, at the step that violated
// it; else of one at the end of the run; else of one about the whole record.
func firstFailure(p verdict.Policy, x *evaluation, atEnd *history.Failure) *history.Failure {
	last := max(0, len(x.record.Steps)-1)
	switch {
	case x.failure != nil:
		return x.failure
	case atEnd != nil:
		f := *atEnd
		if f.Step > 0 && f.Step <= last {
			return &f // the rule names the step
		}
		for f.Step = last; f.Step > 0 && x.record.Steps[f.Step].At > f.At; f.Step-- {
		}
		return &f
	}
	if len(x.record.Steps) == 0 {
		return nil
	}
	check := func(i invariant.Invariant, view invariant.View) error { return i.Check(view) }
	return verdict.WholeRecord(p, x.end, check, x.record.Steps[last].At)
}

// idleClient returns the name of a client that wrote nothing, or "". A replica that requests a Lease which another client wrote is not
// idle: it waits to be elected.
func idleClient(clients sets.Set[string], record *history.Run) string {
	idle, leases := clients.Clone(), sets.New[string]() // leases: the keys of those that a client wrote
	isLease := func(s *history.Step) bool { return s.Resource == "leases.coordination.k8s.io" && s.Name != "" }
	for i := range record.Steps {
		if s := &record.Steps[i]; s.Wrote() && clients.Has(s.Actor) {
			if idle.Delete(s.Actor); isLease(s) {
				leases.Insert(s.Key())
			}
		}
	}
	for i := range record.Steps {
		if s := &record.Steps[i]; isLease(s) && leases.Has(s.Key()) {
			idle.Delete(s.Actor)
		}
	}
	return cmp.Or(sets.List(idle)...)
}
