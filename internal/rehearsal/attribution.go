package rehearsal

import (
	"slices"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// makers are the steps that made changes, -1 where none is known to. The answer to a write
// does not always tell the revision that it made: one that takes the last finalizer of an
// object away is answered with the object as it was, one that deletes many or binds a pod
// tells none. Such a change belongs to the first write of that object, since the change
// before, of which nothing else is known.
func attributeChanges(record *history.Run, changes []verdict.Change, objects *verdict.Objects) []int {
	byRevision := map[int64]int{}
	for n := range record.Steps {
		if s := &record.Steps[n]; s.Wrote() {
			byRevision[s.Revision] = n
		}
	}
	steps := make([]int, len(changes))
	count := map[int]int{}            // of changes, by step
	after := map[history.Object]int{} // of each object, the step after that of its last change
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

// unexplained is the first write of an object that had effect and made nothing that is known;
// -1 if there is none.
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

// answerless attributes changes to writes whose answer never came: the first of the object that
// nobody else is known to have made. Whether such a write took effect nobody can know, and what it
// may have done must be reverted.
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

// byStep are the changes of each step. None is later than that of a later change: changes
// stay in their order. What is nobody's is taken as made together with the next change, if
// the run is over.
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

// cluster is the actor of what a cluster of somebody else does by itself.
const clusterActor = "cluster"

// withOthers is the record with the writes of those that it knows nothing of, each before the
// first step that has heard of it, and the steps of the changes in it. While a run goes on,
// what nobody has heard of may yet turn out to be a client's. What is apart is not recorded.
func addClusterWrites(record *history.Run, changes []verdict.Change, steps []int, objects *verdict.Objects, unrecorded func(key string) bool, whole bool) (*history.Run, []int) {
	var others []int // changes, in the order of revisions
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

// otherStep is a write of the cluster.
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
