package rehearsal

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// outcome is what came of a run. Nothing of it goes on by now.
func (r *run) outcome() *sim.Outcome {
	if r.world.catchUp != nil {
		r.world.catchUp(context.WithoutCancel(r.ctx), r.record.Revision())
	}
	r.record.End()
	j := r.monitor
	j.mu.Lock()
	defer j.mu.Unlock()
	j.takeWrites(r.elapsed()) // a last write of somebody who is gone by now
	x := j.evaluate(true)
	record := x.record
	for n, changes := range x.changes {
		record.Steps[n].Changes = j.objects.Contents(changes)
	}
	record.Failure = firstFailure(x, j.failure)
	out := &sim.Outcome{Run: record, Seen: x.seen, Exempt: j.exempt}
	if r.plan.Learn && record.Failure == nil {
		out.State = j.objects.State(schedulingPaths...)
		if who := r.idleClient(record); who != "" {
			record.Inconclusive = fmt.Sprintf("client %s wrote nothing in a run without faults: there is nothing to rehearse. Do the steps of the scenario give it work?", who)
		}
	}
	_, out.Reports = verdict.StaleOwnWrites(record)
	return out
}

// firstFailure is the first promise that was broken: one that must always hold, at the step that
// broke it, or what was seen at rest, or what the record as a whole shows.
func firstFailure(x *evaluation, atEnd *history.Failure) *history.Failure {
	last := max(0, len(x.record.Steps)-1)
	switch {
	case x.failure != nil:
		return x.failure
	case atEnd != nil:
		f := *atEnd
		for f.Step = last; f.Step > 0 && x.record.Steps[f.Step].At > f.At; f.Step-- {
		}
		return &f
	}
	if len(x.record.Steps) == 0 {
		return nil
	}
	check := func(i invariant.Invariant) error { return i.Check(x.end) }
	return verdict.WholeRecord(check, last, x.record.Steps[last].At)
}

// idle is a client that has written nothing.
func (r *run) idleClient(record *history.Run) string {
	for i := range r.harness.o.Scenario.Clients {
		name := r.harness.o.Scenario.Clients[i].Name
		if !slices.ContainsFunc(record.Steps, func(s history.Step) bool { return s.Actor == name && s.Wrote() }) {
			return name
		}
	}
	return ""
}

// toUnstructured is an object of a Go type as the dynamic client takes it.
func toUnstructured(o runtime.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	return &unstructured.Unstructured{Object: content}, err
}
