package invariant

import (
	"fmt"
	"strings"

	"github.com/rehearse-k8s/rehearse/history"
)

// NoSuccessorDeleted returns an invariant that is violated when a controller deletes, without a precondition on the UID
// or the revision, an object that it has never observed: the last object of that name that it observed had another UID.
// The decision was about the earlier object, and the API could not reject it.
//
// Only objects that a user created count. Another controller may create again and again what the writer wants absent,
// whichever UID it has; a controller knows the objects that it creates itself.
func NoSuccessorDeleted() Invariant {
	return Invariant{Name: "no controller deletes the successor of the object that it observed", Check: func(v View) error {
		for _, w := range successorWrites(v.Run()) {
			if s := w.step; s.Verb == "delete" && s.Subresource == "" && isUser(w.creator) && !w.answered {
				return &StepError{s.N, fmt.Sprintf("%s deleted %s, which %s had created at step %d and %s had not observed; the %s that it had observed was an earlier one of that name",
					s.Actor, s.Object, w.creator, w.created, s.Actor, strings.TrimSuffix(resourceName(s.Resource), "s"))}
			}
		}
		return nil
	}}
}

// NoPredecessorState returns an invariant that is violated when the last write to an object, or to its subresource, was
// meant for an earlier object of that name: events and reads had shown only that one to its writer, and it named neither
// UID nor revision. Such a write is a defect only if it leaves the object in another state than it should have, so it is meant
// for an object whose state is wrong.
func NoPredecessorState(resource, namespace, name, subresource string) Invariant {
	object := history.Object{Resource: resource, Namespace: namespace, Name: name}
	sentence := strings.TrimSpace(fmt.Sprintf("the last write to %s %s was meant for that object", object, subresource))
	return Invariant{Name: sentence, Check: func(v View) error {
		run := v.Run()
		last := -1
		for i := range run.Steps {
			if s := &run.Steps[i]; s.Wrote() && s.Resource == resource && s.Object.Key() == object.Key() && s.Subresource == subresource {
				last = i
			}
		}
		for _, w := range successorWrites(run) {
			if s := w.step; s.N == last && (s.Verb == "update" || s.Verb == "patch") {
				return &StepError{s.N, fmt.Sprintf("%s wrote it (step %d) before it had observed it: it had observed only an earlier %s of that name",
					s.Actor, s.N, strings.TrimSuffix(resourceName(s.Resource), "s"))}
			}
		}
		return nil
	}}
}

func resourceName(resource string) string {
	name, _, _ := strings.Cut(resource, ".")
	return name
}

func isUser(actor string) bool { return actor == history.User || actor == history.OtherUser }

// successorWrite is a write of a controller that was meant for an object and changed or deleted a later one of the same
// name.
type successorWrite struct {
	step *history.Step
	// creator is who created the later object, in step created.
	creator string
	created int
	// answered: the answer to an earlier write of the same writer contained the later object.
	answered bool
}

// successorWrites returns the writes of controllers that name neither UID nor revision and change an object that the
// writer had not observed when it sent the write, although it had observed an earlier one of the same name. Whatever may
// have shown the later object to the writer counts as an observation, such as an event that is delivered before the
// write and after its decision: the writer may have read its cache in between.
func successorWrites(run *history.Run) (found []successorWrite) {
	if !hasSuccessor(run) {
		return nil
	}
	controllers := map[string]bool{}
	for _, name := range run.Controllers() {
		controllers[name] = true
	}
	u := &uids{existing: map[string]incarnation{}, views: map[string]*uidView{}}
	for i := range run.Steps {
		s := &run.Steps[i]
		key := keyIn(s.Resource, s.Object)
		now, exists := u.existing[key]
		if exists && controllers[s.Actor] && s.Kind == history.Request && !s.Guarded && s.Code/100 == 2 && (s.Verb == "delete" || s.Wrote()) && s.Verb != "create" {
			v := u.view(s.Actor)
			if last := v.last[key]; last != "" && last != now.uid && v.seen[now.uid] != byRead {
				found = append(found, successorWrite{s, now.creator, now.created, v.seen[now.uid] == byAnswer})
			}
		}
		u.observe(s, key)
	}
	return found
}

// hasSuccessor reports whether two objects of the run had the same name. In most runs, no two had.
func hasSuccessor(run *history.Run) bool {
	uids := map[history.Object]string{}
	for i := range run.Steps {
		o := run.Steps[i].Object
		uid := o.UID
		if uid == "" {
			continue
		}
		o.UID = ""
		if known := uids[o]; known == "" {
			uids[o] = uid
		} else if known != uid {
			return true
		}
	}
	return false
}

// incarnation is one of the objects that have the same name one after the other.
type incarnation struct {
	uid, creator, resource, namespace string
	created                           int
}

// uids follows which object has each name, and which of them each actor has observed.
type uids struct {
	existing map[string]incarnation // by resource, namespace and name
	views    map[string]*uidView    // by actor
}

// uidView is what an actor has observed.
type uidView struct {
	// last is the UID that the actor observed last for each name; "": it observed that there is none.
	last map[string]string
	// seen are all UIDs that the actor may have observed.
	seen map[string]observation
}

// observation is how an actor has observed an object.
type observation int

const (
	// byAnswer: in the answer to an update or a patch, which a controller that reads from a cache usually drops.
	byAnswer observation = iota + 1
	// byRead: in an event or in the answer to a read, or the actor has created the object.
	byRead
)

func (u *uids) view(actor string) *uidView {
	v := u.views[actor]
	if v == nil {
		v = &uidView{last: map[string]string{}, seen: map[string]observation{}}
		u.views[actor] = v
	}
	return v
}

func keyIn(resource string, o history.Object) string { return resource + " " + o.Key() }

// observe reads one step.
func (u *uids) observe(s *history.Step, key string) {
	switch s.Kind {
	case history.Start, history.Crash:
		if v := u.views[s.Actor]; v != nil {
			clear(v.last) // caches are empty after a restart
		}
	case history.Frame:
		u.observeEvent(s, key)
	case history.Request:
		if s.Code/100 == 2 || s.Code == 404 {
			u.observeAnswer(s, key)
		}
	}
}

func (u *uids) observeEvent(s *history.Step, key string) {
	if s.UID == "" {
		return // a bookmark or an error
	}
	v := u.view(s.Actor)
	v.seen[s.UID] = byRead
	switch {
	case s.Reply == "lost":
	case s.Type != "DELETED":
		v.last[key] = s.UID
	case v.last[key] == s.UID:
		delete(v.last, key)
	}
}

// observeAnswer reads a request that the API has answered. Its answer may be late or lost: then the actor may have observed
// it.
func (u *uids) observeAnswer(s *history.Step, key string) {
	v := u.view(s.Actor)
	switch {
	case s.Code == 404:
		if s.Verb == "get" && s.Reply == "" {
			delete(v.last, key)
		}
	case s.Verb == "list":
		u.observeList(s, v)
	case s.Verb == "delete" || s.Verb == "deletecollection":
		// The answer does not always contain an object, and the object may wait for its finalizers. The next create
		// under that name shows that it is gone.
	case s.UID == "" || s.Verb == "watch":
	default:
		if old := u.existing[key]; s.IsWrite() && s.Subresource == "" && old.uid != s.UID {
			u.existing[key] = incarnation{s.UID, s.Actor, s.Resource, s.Namespace, s.N}
		} else if s.IsWrite() {
			v.seen[s.UID] = max(v.seen[s.UID], byAnswer)
			return
		}
		v.seen[s.UID] = byRead
		if s.Reply == "" {
			v.last[key] = s.UID
		}
	}
}

// observeList takes all objects of the resource as observed: a record does not contain what a list returned.
func (u *uids) observeList(s *history.Step, v *uidView) {
	selects := strings.Contains(s.Query, "labelSelector=") || strings.Contains(s.Query, "fieldSelector=")
	for key, o := range u.existing {
		if o.resource != s.Resource || s.Namespace != "" && s.Namespace != o.namespace {
			continue
		}
		v.seen[o.uid] = byRead
		if !selects && s.Reply == "" {
			v.last[key] = o.uid
		}
	}
}
