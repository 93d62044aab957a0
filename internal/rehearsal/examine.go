package rehearsal

import (
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// examination is what comes of showing a run to its promises.
type examination struct {
	of      *history.Run // what was recorded, and how many changes of the world were known
	taken   int
	record  *history.Run
	changes map[int][]verdict.Change
	// failure is the first promise that was broken, of those that must always hold; nil if
	// none was.
	failure *history.Failure
	// end is the world after the last step, and eventually what must hold in it.
	end        *verdict.Objects
	eventually []scenario.Eventually
	// seen are the things that should be seen sometimes, and whether they were.
	seen map[string]bool
}

// examine shows the run to its promises from the beginning. While it goes on, what comes
// after a write whose answer is not known yet is left out. The lock is held.
func (j *judge) examine(whole bool) *examination {
	record := j.run.record.Record()
	if x := j.last; whole && x != nil && x.of == record && x.taken == len(j.changes) {
		return x // nothing has happened since
	}
	promises := j.run.harness.o.Scenario.Invariants()
	x := &examination{of: record, record: record, taken: len(j.changes), eventually: promises.Eventually, seen: map[string]bool{}}
	if whole {
		j.last = x
	} else {
		x.record = known(x.record)
	}
	steps := makers(x.record, j.changes, j.objects.Objects)
	if j.run.harness.o.Target != nil {
		x.record, steps = withOthers(x.record, j.changes, steps, j.objects.Objects, j.run.place.others, whole)
	}
	x.changes = byStep(x.record, j.changes, steps, whole)
	for _, i := range promises.Sometimes {
		x.seen[i.Name] = false
	}
	x.end = j.objects.Walk(x.record, x.changes, func(v *verdict.Objects) bool {
		at := len(v.Run().Steps) - 1
		for _, i := range promises.Sometimes {
			if !x.seen[i.Name] && i.Check(v) == nil {
				x.seen[i.Name] = true
			}
		}
		if x.failure == nil {
			check := func(i invariant.Invariant) error { return i.Check(v) }
			x.failure = verdict.FirstViolated(promises.Always, check, at, v.Run().Steps[at].At)
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
