package rehearsal

import (
	"slices"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// attributeChanges returns, for each change, the index of the step that wrote it, or -1 if no step is known
// to have written it. An answer does not always contain the revision of the write: the answer to removing the
// last finalizer contains the object as it was, and the answers to a deletecollection or a binding contain
// none. Such a change is attributed to the first write of that object after the object's previous change that
// has no change of its own.
func attributeChanges(record *history.Run, changes []verdict.Change, objects *verdict.Objects) []int {
	byRevision := map[int64]int{}
	for n := range record.Steps {
		if s := &record.Steps[n]; s.Wrote() {
			byRevision[s.Revision] = n
		}
	}
	steps := make([]int, len(changes))
	count := map[int]int{}            // number of changes, by step
	after := map[history.Object]int{} // of each object: the step after that of its last change
	for i, c := range changes {
		o := objects.ObjectOf(c)
		o.UID = ""
		n, ok := byRevision[c.Revision]
		if !ok {
			n = unattributedWrite(record, o, after[o], count)
		}
		if steps[i] = n; n >= 0 {
			count[n]++
			after[o] = n + 1
		}
	}
	return steps
}

// unattributedWrite returns the first successful write of an object to which no change is attributed, or -1.
func unattributedWrite(record *history.Run, o history.Object, from int, count map[int]int) int {
	for n := from; n < len(record.Steps); n++ {
		s := &record.Steps[n]
		if s.Kind != history.Request || !s.IsWrite() || s.Code/100 != 2 || s.Wrote() || s.Resource != o.Resource || s.Namespace != o.Namespace {
			continue
		}
		if s.Verb == "deletecollection" || s.Name == o.Name && count[n] == 0 {
			return n
		}
	}
	return -1
}

// attributeUnanswered attributes changes to writes without an answer: each gets the first change of its
// object that no other step wrote. Such a write may or may not have taken effect, so its possible effect must
// be reverted.
func attributeUnanswered(record *history.Run, changes []verdict.Change, steps []int) {
	for n := range record.Steps {
		s := &record.Steps[n]
		if s.Kind != history.Request || !s.IsWrite() || s.Code != 0 {
			continue
		}
		for i, c := range changes {
			if steps[i] < 0 && c.Revision > s.Truth && c.Key == keyOfObject(s.Object) {
				steps[i] = n
				break
			}
		}
	}
}

// orderWrites returns the record with its writes in the order of their changes, and the new step of each change. The
// proxy orders writes by the revisions in their answers; the answer to a delete may have none. Without this order, a
// deletion would belong to an earlier step that wrote a later revision.
func orderWrites(record *history.Run, changes []verdict.Change, steps []int) (*history.Run, []int) {
	revisions := make([]int64, len(record.Steps))
	observed := make([]int64, len(record.Steps)) // the newest revision in the events before a step
	newest, newestEvent := int64(0), int64(0)
	for n := range record.Steps {
		s := &record.Steps[n]
		observed[n] = newestEvent
		if s.Wrote() && s.Revision > newest {
			revisions[n] = s.Revision
		}
		newest = max(newest, s.Revision)
		if s.Kind == history.Frame {
			newestEvent = max(newestEvent, s.Revision)
		}
	}
	for i, c := range changes {
		// The revisions of an Event or a Lease may be those of another etcd.
		if n := steps[i]; n >= 0 && revisions[n] == 0 && !record.Steps[n].Wrote() && c.Revision > observed[n] && !verdict.Bookkeeping(c.Key) {
			revisions[n] = c.Revision
		}
	}
	order := history.OrderWrites(revisions)
	if slices.IsSorted(order) {
		return record, steps
	}
	record, place := record.Reordered(order)
	steps = slices.Clone(steps)
	for i, n := range steps {
		if n >= 0 {
			steps[i] = place[n]
		}
	}
	return record, steps
}

// changesByStep returns the changes of each step. It preserves the order of changes: no change belongs to a
// later step than a later change. If the run is over, a change without a step is merged into the step of the
// next change.
func changesByStep(record *history.Run, changes []verdict.Change, steps []int, whole bool) map[int][]verdict.Change {
	next := -1
	if whole {
		next = len(record.Steps) - 1
	}
	for i := len(steps) - 1; i >= 0; i-- {
		if next >= 0 && (steps[i] < 0 || steps[i] > next) {
			steps[i] = next
		}
		if steps[i] >= 0 {
			next = steps[i]
		}
	}
	changesOf := map[int][]verdict.Change{}
	for i, n := range steps {
		if n >= 0 {
			changesOf[n] = append(changesOf[n], changes[i])
		}
	}
	return changesOf
}

// clusterActor is the actor of writes by an external cluster itself.
const clusterActor = "cluster"

// addClusterWrites returns the record extended by the writes that no recorded actor sent, each before the
// first step that observed it, and the new step of each change. During a run, a write that no actor has
// observed is left out: it may be a client's. Changes of unrecorded objects are left out.
func addClusterWrites(record *history.Run, changes []verdict.Change, steps []int, objects *verdict.Objects, unrecorded func(key string) bool, whole bool) (*history.Run, []int) {
	var others []int // indices of changes, in the order of revisions
	for i, n := range steps {
		if n < 0 && !unrecorded(changes[i].Key) {
			others = append(others, i)
		}
	}
	if len(others) == 0 || len(record.Steps) == 0 {
		return record, steps
	}
	extended := &history.Run{Header: record.Header}
	newIndex := make([]int, len(record.Steps))
	wrote := map[int64]int{}
	later := slices.Clone(steps)
	insert := func(upTo int64, at *history.Step) {
		for len(others) > 0 && changes[others[0]].Revision <= upTo {
			s := clusterStep(changes[others[0]], objects)
			s.At, s.Truth = at.At, changes[others[0]].Revision
			s.N = extended.Add(s).N
			wrote[s.Revision], later[others[0]] = s.N, s.N
			others = others[1:]
		}
	}
	truth := int64(0)
	for n := range record.Steps {
		s := record.Steps[n]
		truth = max(truth, s.Truth)
		insert(truth, &s)
		causes := make([]int, 0, len(s.Causes))
		for _, cause := range s.Causes {
			causes = append(causes, newIndex[cause])
		}
		if maker, ok := wrote[s.Revision]; ok && s.Kind == history.Frame {
			causes = append(causes, maker)
		}
		s.Causes = causes
		newIndex[n] = extended.Add(s).N
	}
	if whole {
		insert(changes[len(changes)-1].Revision, &record.Steps[len(record.Steps)-1])
	}
	for i, n := range steps {
		if n >= 0 {
			later[i] = newIndex[n]
		}
	}
	return extended, later
}

// clusterStep returns a write by the cluster itself.
func clusterStep(c verdict.Change, objects *verdict.Objects) history.Step {
	verb := "update"
	switch {
	case c.Before == 0:
		verb = "create"
	case c.Deleted():
		verb = "delete"
	}
	return history.Step{Kind: history.Request, Actor: clusterActor, Verb: verb, Object: objects.ObjectOf(c), Revision: c.Revision, Before: c.Before, Code: 200}
}
