package invariant

import (
	"errors"
	"fmt"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/invariant/internal/inspect"
)

// StaleWrite is a write that was decided on a view older than the writer's own last
// write.
type StaleWrite struct {
	// Step is the write, Decided the step at which its reconcile began, and Own the
	// earlier write of the same actor that its cache had not seen by then.
	Step, Decided, Own int
	Actor              string
	// Resource is the kind whose cache lagged; Reached is the revision it had.
	Resource string
	Reached  int64
	// Accepted says that the write changed the world and named no revision or UID, so
	// that nothing stood between the stale view and its effect.
	Accepted bool
}

// String says it in one sentence.
func (w StaleWrite) String() string {
	return fmt.Sprintf("step %d: %s decided at step %d, on %s at revision %d, before it had seen its own write of step %d",
		w.Step, w.Actor, w.Decided, w.Resource, w.Reached, w.Own)
}

// StaleWrites finds the writes that were decided on a view older than the writer's
// own last write. Several writes of one reconcile are one decision and not stale
// against each other, and what a reconcile read from the API itself before it wrote
// is known to it. An actor that watches through a selector is only blamed for events
// that the watch did bring, sooner or later.
func StaleWrites(run *history.Run) (stale []StaleWrite) {
	decisions := decisionsOf(run)
	t := newTracker(run)
	for i := range run.Steps {
		t.take(i)
		for _, d := range decisions[i] {
			actor := run.Steps[d.write].Actor
			own, cache, ok := t.behind(actor, func(s *history.Step) bool {
				return s.Actor == actor && !d.read(run, s)
			})
			if !ok {
				continue
			}
			w := &run.Steps[d.write]
			stale = append(stale, StaleWrite{
				Step: d.write, Decided: i, Own: own, Actor: actor,
				Resource: run.Steps[own].Resource, Reached: cache.reached,
				Accepted: w.Wrote() && !w.Guarded,
			})
		}
	}
	return stale
}

// Stale holds once an actor decided a write while a cache of it lagged behind the
// truth, whoever made that truth. As a Sometimes it shows that a test bites.
func Stale(actor string) Invariant {
	name := fmt.Sprintf("%s decides a write while its cache lags", or(actor, "some controller"))
	return Invariant{Name: name, Check: func(v View) error {
		run := v.Run()
		decisions := decisionsOf(run)
		t := newTracker(run)
		for i := range run.Steps {
			t.take(i)
			for _, d := range decisions[i] {
				if who := run.Steps[d.write].Actor; isActor(actor, who) {
					if _, _, ok := t.behind(who, func(*history.Step) bool { return true }); ok {
						return nil
					}
				}
			}
		}
		return errors.New("every write was decided on a cache that had reached the truth")
	}}
}

// decision is a write and what its reconcile read from the API before it.
type decision struct {
	write int
	reads []int
}

// decisionsOf gives the writes of all controllers by the step at which they were
// decided: the frame or the step of time that began the reconcile.
func decisionsOf(run *history.Run) map[int][]decision {
	controllers := map[string]bool{}
	for _, name := range run.Controllers() {
		controllers[name] = true
	}
	decisions := map[int][]decision{}
	for i := range run.Steps {
		if s := &run.Steps[i]; s.Kind == history.Request && s.IsWrite() && controllers[s.Actor] {
			if root, reads := inspect.ReconcileStart(run, i); root < i { // what has no cause cannot be judged
				decisions[root] = append(decisions[root], decision{i, reads})
			}
		}
	}
	return decisions
}

// read tells whether the decision's own reads have shown it an earlier write: a get
// of that object, or a list that has it.
func (d decision) read(run *history.Run, own *history.Step) bool {
	for _, i := range d.reads {
		r := &run.Steps[i]
		if r.N < own.N || r.Resource != own.Resource {
			continue
		}
		found := r.Code/100 == 2 || r.Code == 404
		switch r.Verb {
		case "get":
			if found && r.Namespace == own.Namespace && r.Name == own.Name {
				return true
			}
		case "list":
			if found && (r.Namespace == "" || r.Namespace == own.Namespace) && (r.Revision == 0 || r.Revision >= own.Revision) {
				return true
			}
		}
	}
	return false
}
