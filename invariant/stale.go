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
// selector, only events that the watch delivers at some time count. Leases and Events do not count.
func StaleWrites(run *history.Run) (stale []StaleWrite) {
	decisions := decisionsOf(run)
	t := newTracker(run)
	for i := range run.Steps {
		t.observe(i)
		for _, write := range decisions.writes[i] {
			actor := run.Steps[write].Actor
			if history.Bookkeeping(run.Steps[write].Resource) {
				continue
			}
			own, cache, ok := t.behind(actor, func(s *history.Step) bool {
				return s.Actor == actor && !history.Bookkeeping(s.Resource) && !decisions.read(write, s)
			})
			if !ok {
				continue
			}
			w := &run.Steps[write]
			stale = append(stale, StaleWrite{
				Step: write, Decided: i, Own: own, Actor: actor,
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
			for _, write := range decisions.writes[i] {
				if who := run.Steps[write].Actor; isActor(actor, who) {
					if _, _, ok := t.behind(who, func(*history.Step) bool { return true }); ok {
						return nil
					}
				}
			}
		}
		return errors.New("each write was decided on a cache that was up to date")
	}}
}

// decisions are the writes of all controllers, by the step at which they were decided: the frame or the
// step of time that started the reconcile.
type decisions struct {
	run        *history.Run
	reconciles *inspect.Reconciles
	writes     map[int][]int
	// shown caches the results of read, by the earlier write and then by request: the requests of a long
	// reconcile share what the reconcile read before.
	shown map[int]map[int]bool
}

func decisionsOf(run *history.Run) *decisions {
	controllers := map[string]bool{}
	for _, name := range run.Controllers() {
		controllers[name] = true
	}
	d := &decisions{run: run, reconciles: inspect.NewReconciles(run), writes: map[int][]int{}, shown: map[int]map[int]bool{}}
	for i := range run.Steps {
		if s := &run.Steps[i]; s.Kind == history.Request && s.IsWrite() && controllers[s.Actor] {
			if start := d.reconciles.Start(i); start < i { // a write without a cause cannot be checked
				d.writes[start] = append(d.writes[start], i)
			}
		}
	}
	return d
}

// read reports whether the reconcile of a write has itself read an earlier write from the API.
func (d *decisions) read(write int, own *history.Step) bool {
	shown := d.shown[own.N]
	if shown == nil {
		shown = map[int]bool{}
		d.shown[own.N] = shown
	}
	var later []int
	found := false
	for at := write; ; {
		if known, ok := shown[at]; ok {
			found = known
			break
		}
		later = append(later, at)
		previous, ok := d.reconciles.Previous(at)
		if !ok {
			break
		}
		if shows(&d.run.Steps[previous], own) {
			found = true
			break
		}
		at = previous
	}
	for _, at := range later {
		shown[at] = found
	}
	return found
}

// shows reports whether the answer to a request shows an earlier write: a get of that object, or a list
// that contains it.
func shows(r, own *history.Step) bool {
	if r.N < own.N || r.Resource != own.Resource || r.Code/100 != 2 && r.Code != 404 {
		return false
	}
	switch r.Verb {
	case "get":
		return r.Namespace == own.Namespace && r.Name == own.Name
	case "list":
		return (r.Namespace == "" || r.Namespace == own.Namespace) && (r.Revision == 0 || r.Revision >= own.Revision)
	}
	return false
}
