package rehearsal

import (
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// evaluation is the result of checking a run against its invariants.
type evaluation struct {
	source      *history.Run // the record that was checked, and how many changes of the world were known then
	changeCount int
	record      *history.Run
	changes     map[int][]verdict.Change
	// failure is the first violated invariant of those that must always hold, or nil.
	failure *history.Failure
	// end is the world after the last step, and eventually are the invariants that must hold in it.
	end        *verdict.Objects
	eventually []scenario.Eventually
	// seen reports which "sometimes" conditions were observed.
	seen map[string]bool
}

// evaluate replays the run against its invariants, from the first step. Unless whole is set, it ignores the
// steps that follow a write without an answer. The caller holds the lock.
func (j *monitor) evaluate(whole bool) *evaluation {
	record := j.run.record.Record()
	if x := j.lastEvaluation; whole && x != nil && x.source == record && x.changeCount == len(j.changes) {
		return x // the record has not changed since
	}
	invariants := j.run.harness.o.Scenario.Invariants()
	x := &evaluation{source: record, record: record, changeCount: len(j.changes), eventually: invariants.Eventually, seen: map[string]bool{}}
	if whole {
		j.lastEvaluation = x
	}
	var steps []int
	x.record, steps = orderWrites(record, j.changes, attributeChanges(record, j.changes, j.objects.Objects))
	if !whole {
		x.record, steps = answeredPrefix(x.record, j.changes, steps)
	}
	if j.run.harness.o.Target != nil {
		x.record, steps = addClusterWrites(x.record, j.changes, steps, j.objects.Objects, j.run.world.unrecorded, whole)
	}
	x.changes = changesByStep(x.record, j.changes, steps, whole)
	for _, i := range invariants.Sometimes {
		x.seen[i.Name] = false
	}
	var gap recreationGap
	x.end = j.objects.Walk(x.record, x.changes, func(v *verdict.Objects) bool {
		at := len(v.Run().Steps) - 1
		for _, i := range invariants.Sometimes {
			if !x.seen[i.Name] && i.Check(v) == nil {
				x.seen[i.Name] = true
			}
		}
		if x.failure == nil && !gap.follows(&v.Run().Steps[at]) {
			check := func(i invariant.Invariant) error { return i.Check(v) }
			x.failure = verdict.FirstViolated(invariants.Always, check, at, v.Run().Steps[at].At)
		}
		return x.failure == nil
	})
	return x
}

// recreationGap is the time in which objects of the user do not exist, or wait for their finalizers, because a fault has
// deleted them and is about to create them again. Invariants about them are not checked in it.
type recreationGap struct{ absent map[history.Object]bool }

// follows reads a step, and reports whether an object is absent after it.
func (g *recreationGap) follows(s *history.Step) bool {
	kind, _, _ := strings.Cut(s.Fault, " ")
	switch {
	case s.Kind != history.Request || s.Code/100 != 2: // the answer to a delete may have no revision
	case s.Actor == history.OtherUser && s.Verb == "delete" && fault.Kind(kind) == fault.KindRecreate:
		if f, err := fault.Parse(s.Fault); err == nil && f.Target != "" && f.Target != fault.TargetOf(s.Object) {
			break // a dependent
		}
		if g.absent == nil {
			g.absent = map[history.Object]bool{}
		}
		g.absent[keyed(s.Object)] = true
	case s.Verb == "create" && s.Subresource == "":
		delete(g.absent, keyed(s.Object))
	}
	return len(g.absent) > 0
}

// answeredPrefix returns the record up to the first write whose effect is not known yet, and the step of each change. A
// write under way may have changed its object already: the writes after that change are not in the prefix either.
func answeredPrefix(record *history.Run, changes []verdict.Change, steps []int) (*history.Run, []int) {
	if firstPending(record) == len(record.Steps) {
		return record, steps
	}
	steps = slices.Clone(steps)
	attributeUnanswered(record, changes, steps)
	record, steps = orderWrites(record, changes, steps)
	end := firstPending(record)
	for i, n := range steps {
		if n >= end {
			steps[i] = -1
		}
	}
	return &history.Run{Header: record.Header, Steps: record.Steps[:end]}, steps
}

// firstPending returns the index of the first write that is under way, or the number of steps.
func firstPending(record *history.Run) int {
	for n := range record.Steps {
		if s := &record.Steps[n]; s.Kind == history.Request && s.IsWrite() && s.Code == 0 && s.Reply == "" && s.Note == "" {
			return n
		}
	}
	return len(record.Steps)
}
