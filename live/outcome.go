package live

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/sim"
)

// outcome is what came of a run. Nothing of it goes on by now.
func (r *run) outcome() *sim.Outcome {
	record := r.record.End()
	j := r.judge
	j.mu.Lock()
	defer j.mu.Unlock()
	attach(record, j.changes)
	record.Failure = j.failure
	if f := record.Failure; f != nil {
		f.Step = stepOf(record, j.failed, f)
		f.At = max(f.At, record.Steps[f.Step].At)
	}
	out := &sim.Outcome{Run: record, Seen: j.seen, Exempt: j.exempt}
	if record.Failure == nil {
		r.judgeRecord(record)
	}
	if r.plan.Learn && record.Failure == nil {
		out.State = j.truth.State()
		if who := r.idle(record); who != "" {
			record.Inconclusive = fmt.Sprintf("client %s wrote nothing in a run without faults: there is nothing to rehearse. Do the steps of the scenario give it work?", who)
		}
	}
	for _, stale := range invariant.StaleWrites(record) {
		out.Reports = append(out.Reports, stale.String())
	}
	return out
}

// stepOf is the step after which a promise was seen to be broken.
func stepOf(record *history.Run, revision int64, f *history.Failure) int {
	last := max(0, len(record.Steps)-1)
	for n := range record.Steps {
		s := &record.Steps[n]
		if revision != 0 && s.Wrote() && s.Revision == revision {
			return n
		}
		if s.At <= f.At {
			last = n
		}
	}
	return last
}

// judgeRecord looks at what must hold for the record as a whole.
func (r *run) judgeRecord(record *history.Run) {
	if err := invariant.DefaultHotLoop.Check(recorded{r.judge.truth, record}); err != nil {
		record.Failure = &history.Failure{
			Oracle: invariant.DefaultHotLoop.Name, Message: err.Error(), Step: max(0, len(record.Steps)-1), At: r.elapsed(),
		}
	}
}

// recorded is a view whose record is whole.
type recorded struct {
	invariant.View
	run *history.Run
}

// Run implements invariant.View.
func (v recorded) Run() *history.Run { return v.run }

// idle is a client that has written nothing.
func (r *run) idle(record *history.Run) string {
	for i := range r.arena.o.Scenario.Clients {
		name := r.arena.o.Scenario.Clients[i].Name
		if !slices.ContainsFunc(record.Steps, func(s history.Step) bool { return s.Actor == name && s.Wrote() }) {
			return name
		}
	}
	return ""
}

// attach gives the changes of objects to the steps that made them. The answer to a write
// does not always tell the revision it made: one that takes the last finalizer of an object
// away is answered with the object as it was. Such a change belongs to the first write of
// that object, since the change before, of which nothing else is known.
func attach(record *history.Run, changes []history.Change) {
	byRevision := map[int64]int{}
	for n := range record.Steps {
		if s := &record.Steps[n]; s.Wrote() {
			byRevision[s.Revision] = n
		}
	}
	after := map[string]int{} // of each object, the step of its last change
	for _, c := range changes {
		key := c.Object.Resource + " " + c.Object.Key()
		n, known := byRevision[c.Revision]
		if !known {
			n = firstWrite(record, c.Object, after[key])
		}
		if n < 0 {
			continue
		}
		record.Steps[n].Changes = append(record.Steps[n].Changes, c)
		after[key] = n + 1
	}
}

func firstWrite(record *history.Run, o history.Object, from int) int {
	for n := from; n < len(record.Steps); n++ {
		s := &record.Steps[n]
		if s.Kind == history.Request && s.IsWrite() && s.Code/100 == 2 && len(s.Changes) == 0 &&
			s.Resource == o.Resource && s.Namespace == o.Namespace && (s.Name == o.Name || s.Name == "") {
			return n
		}
	}
	return -1
}

// toUnstructured is an object of a Go type as the dynamic client takes it.
func toUnstructured(o runtime.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	return &unstructured.Unstructured{Object: content}, err
}
