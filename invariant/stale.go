package invariant

import (
	"errors"
	"fmt"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/invariant/internal/inspect"
)

// StaleWrite is a write that was decided on a view older than the writer's own last write.
type StaleWrite struct {
	// Step is the write, Decided the step at which its reconcile started, and Own the earlier write
	// of the same actor that its cache had not observed by then.
	Step, Decided, Own int
	Actor              string
	// Resource is the kind whose cache lagged; Reached is the revision it had.
	Resource string
	Reached  int64
	// Accepted: the write changed an object and named neither a revision nor a UID, so the API
	// could not reject it for being stale.
	Accepted bool
}

// String describes the write in one sentence.
func (w StaleWrite) String() string {
	return fmt.Sprintf("step %d: %s decided at step %d, on %s at revision %d, before it had observed its own write of step %d",
		w.Step, w.Actor, w.Decided, w.Resource, w.Reached, w.Own)
}

// StaleWrites returns the writes that were decided on a view older than the writer's own last write.
// The writes of one reconcile are one decision and not stale against each other, and a reconcile
// knows what it read from the API itself before the write. For an actor that watches with a
// selector, only events that the watch delivers at some time count.
func StaleWrites(run *history.Run) (stale []StaleWrite) {
	decisions := decisionsOf(run)
	t := newTracker(run)
	for i := range run.Steps {
		t.observe(i)
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

// Stale returns an invariant that holds once an actor has decided a write while one of its caches was
// behind the API, no matter which actor had changed the API. As a Sometimes it shows that a test creates stale
// caches at all.
func Stale(actor string) Invariant {
	name := fmt.Sprintf("%s decides a write while its cache lags", or(actor, "some controller"))
	return Invariant{Name: name, Check: func(v View) error {
		run := v.Run()
		decisions := decisionsOf(run)
		t := newTracker(run)
		for i := range run.Steps {
			t.observe(i)
			for _, d := range decisions[i] {
				if who := run.Steps[d.write].Actor; isActor(actor, who) {
					if _, _, ok := t.behind(who, func(*history.Step) bool { return true }); ok {
						return nil
					}
				}
			}
		}
		return errors.New("each write was decided on a cache that was up to date")
	}}
}

// decision is a write, and the requests by which its reconcile read from the API before it.
type decision struct {
	write int
	reads []int
}

// decisionsOf returns the writes of all controllers by the step at which they were decided: the frame
// or the step of time that started the reconcile.
func decisionsOf(run *history.Run) map[int][]decision {
	controllers := map[string]bool{}
	for _, name := range run.Controllers() {
		controllers[name] = true
	}
	decisions := map[int][]decision{}
	for i := range run.Steps {
		if s := &run.Steps[i]; s.Kind == history.Request && s.IsWrite() && controllers[s.Actor] {
			if root, reads := inspect.ReconcileStart(run, i); root < i { // a write without a cause cannot be checked
				decisions[root] = append(decisions[root], decision{i, reads})
			}
		}
	}
	return decisions
}

// read reports whether the decision's own reads have shown it an earlier write: by a get of that
// object, or a list that contains it.
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
