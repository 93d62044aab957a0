package live

import (
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/scenario"
	"github.com/rehearse-k8s/rehearse/truth"
)

// examination is what comes of showing a run to its promises.
type examination struct {
	record  *history.Run
	taken   int // how many changes of the store it knew
	changes map[int][]truth.Change
	// failure is the first promise that was broken, of those that must always hold; nil if
	// none was.
	failure *history.Failure
	// end is the world after the last step, and promised what must hold in it.
	end      *truth.Truth
	promised []scenario.Eventually
	// seen are the things that should be seen sometimes, and whether they were.
	seen map[string]bool
}

// examine shows the run to its promises from the beginning. While it goes on, what comes
// after a write whose answer is not known yet is left out. The lock is held.
func (j *judge) examine(whole bool) *examination {
	record := j.run.record.Record()
	if x := j.last; whole && x != nil && x.record == record && x.taken == len(j.changes) {
		return x // nothing has happened since
	}
	promises := j.run.arena.o.Scenario.Promises()
	x := &examination{record: record, taken: len(j.changes), promised: promises.Eventually, seen: map[string]bool{}}
	if whole {
		j.last = x
	} else {
		x.record = known(x.record)
	}
	x.changes = assign(x.record, j.changes, j.truth, whole)
	for _, i := range promises.Sometimes {
		x.seen[i.Name] = false
	}
	x.end = j.truth.Again(x.record, x.changes, func(v *truth.Truth) bool {
		at := len(v.Run().Steps) - 1
		for _, i := range promises.Sometimes {
			if !x.seen[i.Name] && i.Check(v) == nil {
				x.seen[i.Name] = true
			}
		}
		for _, i := range promises.Always {
			if err := i.Check(v); err != nil && x.failure == nil {
				x.failure = &history.Failure{Oracle: i.Name, Message: err.Error(), Step: at, At: v.Run().Steps[at].At}
			}
		}
		return x.failure == nil
	})
	return x
}

// known is a record up to the first write of which nobody knows yet what it did.
func known(record *history.Run) *history.Run {
	for n := range record.Steps {
		if s := &record.Steps[n]; s.Kind == history.Request && s.IsWrite() && s.Code == 0 && s.Reply == "" && s.Note == "" {
			return &history.Run{Header: record.Header, Steps: record.Steps[:n]}
		}
	}
	return record
}

// assign says which step made which change. The answer to a write does not always tell
// the revision that it made: one that takes the last finalizer of an object away is answered
// with the object as it was, one that deletes many or binds a pod tells none. Such a change
// belongs to the first write of that object, since the change before, of which nothing else
// is known, but not to one after the step of the next change: changes stay in their order.
// What is nobody's is taken as made together with the next change, if the run is over.
func assign(record *history.Run, changes []truth.Change, t *truth.Truth, whole bool) map[int][]truth.Change {
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
		o := t.ObjectOf(c)
		o.UID = ""
		n, ok := byRevision[c.Revision]
		if !ok {
			n = unexplained(record, o, after[o], count)
		}
		if steps[i] = n; n >= 0 {
			count[n]++
			after[o] = n + 1
		}
	}
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
	made := map[int][]truth.Change{}
	for i, n := range steps {
		if n >= 0 {
			made[n] = append(made[n], changes[i])
		}
	}
	return made
}

// unexplained is the first write of an object that had effect and made nothing that is known;
// -1 if there is none.
func unexplained(record *history.Run, o history.Object, from int, count map[int]int) int {
	for n := from; n < len(record.Steps); n++ {
		s := &record.Steps[n]
		if s.Kind != history.Request || !s.IsWrite() || s.Code/100 != 2 || s.Resource != o.Resource || s.Namespace != o.Namespace {
			continue
		}
		if s.Verb == "deletecollection" || s.Name == o.Name && count[n] == 0 {
			return n
		}
	}
	return -1
}
