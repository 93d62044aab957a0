package invariant

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// NoLostUpdate returns an invariant that is violated when a controller removes what another user has written into an object
// of the user: its update, or its patch of a whole list, was decided on an older state and named no resourceVersion, so the
// API could not reject it (API Concepts, "Updates to existing resources").
//
// What the other user writes is known: the annotation, the label and the finalizer of interference faults. Only objects that
// a user created count: a controller may own every field of the objects that it creates itself.
func NoLostUpdate() Invariant {
	return Invariant{Name: "no controller removes what another user has written into the user's object", Check: func(v View) error {
		u := otherUsersWrites(v.Run())
		for _, w := range u.writes {
			if u.uids[keyIn(w.Resource, w.Object)] != w.UID || !u.isLost(v, w) {
				continue
			}
			if by := u.removedBy(w); by != nil {
				return &StepError{by.N, fmt.Sprintf("%s's %s of %s without a resourceVersion removed the %s that %s had written at step %d",
					by.Actor, by.Verb, by.Object, w.what, w.Actor, w.N)}
			}
		}
		return nil
	}}
}

// otherWrite is a write of another user into an object of the user.
type otherWrite struct {
	*history.Step
	what string // an annotation, a label or a finalizer
	// end is the request of the other user that removes the finalizer again; nil if there is none yet.
	end *history.Step
}

// otherWrites are the writes of other users into objects of the user.
type otherWrites struct {
	run    *history.Run
	writes []*otherWrite
	uids   map[string]string // of the existing objects that a user has created, by resource, namespace and name
}

func otherUsersWrites(run *history.Run) *otherWrites {
	u := &otherWrites{run: run, uids: map[string]string{}}
	for i := range run.Steps {
		s := &run.Steps[i]
		if s.Kind != history.Request || s.Code/100 != 2 || s.Subresource != "" {
			continue
		}
		key := keyIn(s.Resource, s.Object)
		switch s.Verb {
		case "create":
			u.uids[key] = ""
			if isUser(s.Actor) {
				u.uids[key] = s.UID
			}
		case "patch":
			if s.Actor == history.OtherUser && s.UID != "" && u.uids[key] == s.UID {
				u.add(s)
			}
		}
	}
	return u
}

// add adds a patch of the other user, or notes that it is the end of an earlier one.
func (u *otherWrites) add(s *history.Step) {
	kind, _, _ := strings.Cut(s.Fault, " ")
	what := left[fault.Kind(kind)]
	if what == finalizer {
		earlier := slices.IndexFunc(u.writes, func(w *otherWrite) bool { return w.Fault == s.Fault && w.UID == s.UID && w.end == nil })
		if earlier >= 0 {
			u.writes[earlier].end = s
			return
		}
	}
	if what != "" && s.Wrote() { // a finalizer that is there already is that of another fault
		u.writes = append(u.writes, &otherWrite{Step: s, what: what})
	}
}

// left says what interference faults leave in an object.
var left = map[fault.Kind]string{fault.KindConflict: "annotation", fault.KindLabel: "label", fault.KindFinalizer: finalizer}

const finalizer = "finalizer"

// isLost reports whether an object no longer has what the other user wrote.
func (u *otherWrites) isLost(v View, w *otherWrite) bool {
	if w.what == finalizer {
		return w.end != nil && !w.end.Wrote() && !u.removedByOther(w) // there was nothing to remove
	}
	o := v.Get(w.Resource, w.Namespace, w.Name)
	return o != nil && string(o.GetUID()) == w.UID && values(o, w.what)[fault.InterferenceKey] == ""
}

func values(o *unstructured.Unstructured, what string) map[string]string {
	if what == "label" {
		return o.GetLabels()
	}
	return o.GetAnnotations()
}

// removedByOther reports whether the other user itself may have removed a finalizer: all of its finalizers have one name, and an
// apply for another fault has changed the object meanwhile.
func (u *otherWrites) removedByOther(w *otherWrite) bool {
	return slices.ContainsFunc(u.run.Steps[w.N+1:w.end.N], func(s history.Step) bool {
		return s.Actor == history.OtherUser && s.UID == w.UID && s.Fault != w.Fault && strings.HasPrefix(s.Fault, string(fault.KindFinalizer)+" ") && s.Wrote()
	})
}

// removedBy returns the write of a controller that may have removed what the other user wrote: the one of which the record
// says so, or else the first that could; nil if there is none, or if an actor that is no controller has replaced the object.
func (u *otherWrites) removedBy(w *otherWrite) (by *history.Step) {
	end := len(u.run.Steps)
	if w.end != nil {
		end = w.end.N
	}
	controllers := u.run.Controllers()
	for i := w.N + 1; i < end; i++ {
		s := &u.run.Steps[i]
		if !s.Wrote() || s.UID != w.UID || s.Verb != "update" && s.Verb != "patch" || s.Actor == history.OtherUser {
			continue
		}
		if !slices.Contains(controllers, s.Actor) {
			if s.Verb == "update" {
				return nil // the user, or a simulated part of the cluster, has replaced the object
			}
			continue
		}
		if s.Versioned {
			continue
		}
		if removes(s, w.what) {
			return s
		}
		if by == nil {
			by = s
		}
	}
	return by
}

// removes reports whether the record of a write says that it removed an annotation, a label or a finalizer of the other user.
func removes(s *history.Step, what string) bool {
	signs := []string{`"` + what + `s":null`, `"` + fault.InterferenceKey + `":null`}
	if what == finalizer {
		signs = []string{`"finalizers":`} // a merge patch contains the whole list
	}
	return slices.ContainsFunc(s.Changes, func(c history.Change) bool {
		return c.Object.Key() == s.Object.Key() && slices.ContainsFunc(signs, func(sign string) bool { return strings.Contains(string(c.Patch), sign) })
	})
}
