package history

import (
	"fmt"
	"strings"
)

// Departure is where a run departs from a passing one.
type Departure struct {
	// Step is the first step of the run that differs, and Nearest the step of the passing run that corresponds to it: a
	// number beyond its last step if that run has none.
	Step, Nearest int
	// ByWrites: the runs were compared by what each actor wrote, and not by their steps.
	ByWrites bool
}

// String says until where the runs are alike.
func (d Departure) String() string {
	if d.ByWrites {
		return fmt.Sprintf("up to step %d each actor wrote what it wrote in the nearest passing run", d.Step)
	}
	return fmt.Sprintf("the nearest passing run has the same steps up to step %d", d.Step)
}

// DepartsFrom returns where a run departs from a passing one; ok is false if it does not. Two runs in virtual time have
// the same steps until something differs. The steps of processes have no fixed order, so of two runs with processes
// each actor's writes to each object are compared, in their order: ByWrites.
func (r *Run) DepartsFrom(passing *Run) (d Departure, ok bool) {
	if r.Live {
		return r.departsByWrites(passing)
	}
	step, differs := Diverged(passing, r)
	return Departure{Step: step, Nearest: step}, differs && step < len(r.Steps)
}

// thread identifies the writes of one actor to one object.
type thread struct{ actor, resource, object string }

func (r *Run) departsByWrites(passing *Run) (d Departure, ok bool) {
	both, theirs := r.keys(), passing.keys()
	for key := range both {
		both[key] = theirs[key]
	}
	here, there := r.threads(both), passing.threads(both)
	d.ByWrites = true
	offer := func(step, nearest int) {
		if !ok || step < d.Step {
			d.Step, d.Nearest, ok = step, nearest, true
		}
	}
	for t, writes := range here {
		for n, s := range writes {
			if n >= len(there[t]) {
				offer(s.N, len(passing.Steps))
				break
			}
			if o := there[t][n]; o.Verb != s.Verb || o.Subresource != s.Subresource {
				offer(s.N, o.N)
				break
			}
		}
	}
	if r.Failure == nil || !r.Failure.AtEnd {
		return d, ok // the run ended before it could do the rest
	}
	for t, writes := range there {
		if n := len(here[t]); n < len(writes) {
			after := 0
			if n > 0 {
				after = here[t][n-1].N + 1
			}
			offer(min(after, len(r.Steps)-1), writes[n].N)
		}
	}
	return d, ok
}

// keys returns the objects that a run wrote.
func (r *Run) keys() map[string]bool {
	keys := map[string]bool{}
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Wrote() {
			keys[s.Resource+" "+s.Key()] = true
		}
	}
	return keys
}

// threads returns the writes by actor and object. The successor of an instance has its name with a "+", and is the same
// actor. An object that only one run has is one with a generated name: those of an actor and resource are one thread.
func (r *Run) threads(both map[string]bool) map[thread][]*Step {
	all := map[thread][]*Step{}
	for i := range r.Steps {
		s := &r.Steps[i]
		if !s.Wrote() || Bookkeeping(s.Resource) {
			continue
		}
		t := thread{strings.TrimRight(s.Actor, "+"), s.Resource, s.Key()}
		if !both[s.Resource+" "+s.Key()] {
			t.object = ""
		}
		all[t] = append(all[t], s)
	}
	return all
}
