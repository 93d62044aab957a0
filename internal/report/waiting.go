package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/history"
)

// describeWaiting explains a violation of the kind "this never happens": it names the object that waits, the last
// change of that object, which controllers observed the change and when, and the first write of the nearest
// passing run that this run lacks, and whether its writer still has a reason to run. ok is false if the failure names no object of the run.
func (t *explainer) describeWaiting(end int, nearest *history.Run) (text string, ok bool) {
	last, missing := t.differs, (*history.Step)(nil)
	if last != nil {
		missing, _ = t.missingWrite(nearest, last.Object, true)
	} else {
		last, missing = t.waitingObject(nearest)
	}
	if last == nil {
		return "", false
	}
	text = fmt.Sprintf("%s waits: its last change was %s %s (step %d, %s)", t.name(last.Object), possessive(last.Actor), verbOf(last), t.cite(last.N), clock(last.At))
	for _, actor := range t.controllers {
		if actor != last.Actor {
			text += t.describeDelivery(actor, last)
		}
	}
	if missing != nil {
		text += fmt.Sprintf("; the nearest passing run has %s %s of %s (step %d there), which is missing here",
			possessive(missing.Actor), verbOf(missing), t.name(missing.Object), missing.N)
	}
	return text + t.describeIdle(t.idleController(missing), end) + t.lastFault(end), true
}

func (t *explainer) name(o history.Object) string { return o.Resource + " " + o.Key() }

func verbOf(s *history.Step) string {
	if s.Subresource != "" {
		return s.Verb + " of " + s.Subresource
	}
	return s.Verb
}

// describeDelivery says when a controller observed a write; "" if it does not watch the resource.
func (t *explainer) describeDelivery(actor string, write *history.Step) string {
	watches := false
	for i := range t.run.Steps {
		s := &t.run.Steps[i]
		if s.Actor == actor && s.Kind == history.Crash {
			watches = false
		}
		if s.Actor != actor || s.Resource != write.Resource {
			continue
		}
		watches = watches || s.Verb == "watch"
		if s.N <= write.N || s.Name != write.Name || s.Namespace != write.Namespace {
			continue
		}
		if s.Kind == history.Frame && s.Revision >= write.Revision && delivery(s) != lost {
			return fmt.Sprintf(", which %s observed at step %d (%s)", actor, t.cite(s.N), clock(s.At))
		}
	}
	if watches {
		return ", which no watch delivered to " + actor
	}
	return ""
}

// waitingObject returns the last write of the object that waits, and the write of the nearest passing run that it lacks.
// Of the objects that the failure names, the one that lacks a write waits. If the failure names none, it is the object
// that the first missing write changes. last is nil if the run has no such object.
func (t *explainer) waitingObject(nearest *history.Run) (last, missing *history.Step) {
	all, named := namedObjects(t.run)
	for _, s := range slices.Backward(all) {
		m, ofObject := t.missingWrite(nearest, s.Object, named)
		if last == nil || ofObject {
			last, missing = s, m
		}
		if ofObject {
			break
		}
	}
	if last != nil {
		return last, missing
	}
	if missing, _ = t.missingWrite(nearest, history.Object{}, false); missing == nil {
		return nil, nil
	}
	for _, n := range t.writes {
		if s := &t.run.Steps[n]; isObject(s, missing.Object) {
			last = s
		}
	}
	return last, missing
}

// namedObjects returns the last write of each object that the failure names best, in the order of the steps. The
// message counts more than the name of the invariant, and namespace/name more than a name. named says that the failure
// names them by more than a name, which other objects may have as well.
func namedObjects(run *history.Run) (all []*history.Step, named bool) {
	f, best := run.Failure, 1
	for i := range run.Steps {
		s := &run.Steps[i]
		if !s.Wrote() || s.Name == "" || history.Bookkeeping(s.Resource) {
			continue
		}
		inMessage, inOracle := mentions(f.Message, s.Object), mentions(f.Oracle, s.Object)
		score := 8 * inMessage
		if inMessage < 2 {
			score += 2 * inOracle
		}
		if score == 0 {
			continue
		}
		resource, _, _ := strings.Cut(s.Resource, ".")
		ofResource := s.Resource == f.Resource || strings.Contains(strings.ToLower(f.Message), strings.TrimSuffix(resource, "s"))
		if ofResource {
			score++
		}
		if score < best {
			continue
		}
		if score > best {
			all, best = nil, score
		}
		all = slices.DeleteFunc(all, func(other *history.Step) bool { return isObject(other, s.Object) })
		all, named = append(all, s), ofResource || inMessage == 2 || inOracle == 2
	}
	return all, named
}

// mentions returns 2 if a text names an object with its namespace, 1 if it contains its name as a word, else 0.
func mentions(text string, o history.Object) int {
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\n,;:()\"'", r) })
	switch {
	case slices.Contains(words, o.Key()):
		return 2
	case slices.Contains(words, o.Name):
		return 1
	}
	return 0
}

// missingWrite returns the first write of a controller in a passing run that has no counterpart in this run. If the
// failure names the object that waits, it prefers the writes of that object and of those that it owns, and among
// them those of more than a status. ofObject says that the write is one of these.
func (t *explainer) missingWrite(passing *history.Run, waits history.Object, named bool) (missing *history.Step, ofObject bool) {
	if passing == nil {
		return nil, false
	}
	type write struct{ actor, verb, resource, subresource, object string }
	here, there := objectKeys(t.run), objectKeys(passing)
	identity := func(s *history.Step) write {
		w := write{strings.TrimRight(s.Actor, "+"), s.Verb, s.Resource, s.Subresource, s.Object.Key()}
		if !here[w.object] || !there[w.object] {
			w.object = "" // its name was generated
		}
		return w
	}
	writes := func(run *history.Run, each func(*history.Step)) {
		controllers := run.Controllers()
		for i := range run.Steps {
			if s := &run.Steps[i]; s.Wrote() && !history.Bookkeeping(s.Resource) && slices.Contains(controllers, s.Actor) {
				each(s)
			}
		}
	}
	left, best := map[write]int{}, -1
	states := newArchive(passing)
	writes(t.run, func(s *history.Step) { left[identity(s)]++ })
	writes(passing, func(s *history.Step) {
		w := identity(s)
		left[w]--
		if left[w] >= 0 {
			return
		}
		rank := 0
		if named && (isObject(s, waits) || states.owns(waits, s)) {
			rank = 2
			if s.Subresource == "status" {
				rank = 1
			}
		}
		if rank > best {
			missing, best = s, rank
		}
	})
	return missing, best > 0
}

// objectKeys returns the keys of the objects of a run.
func objectKeys(run *history.Run) map[string]bool {
	keys := map[string]bool{}
	for i := range run.Steps {
		keys[run.Steps[i].Object.Key()] = true
	}
	return keys
}

func isObject(s *history.Step, o history.Object) bool {
	return s.Resource == o.Resource && s.Object.Key() == o.Key()
}

// owns reports whether an object owned another one after a write of the latter.
func (a archive) owns(owner history.Object, write *history.Step) bool {
	v, _ := a.at(keyOf(write.Object), write.Revision, nil)
	resource, _, _ := strings.Cut(owner.Resource, ".")
	return owner.Namespace == write.Namespace && slices.ContainsFunc(ownersOf(v.object), func(o ownerReference) bool {
		return o.name == owner.Name && strings.HasPrefix(resource, strings.ToLower(o.kind))
	})
}

type ownerReference struct{ kind, name string }

// ownersOf returns the owners of an object.
func ownersOf(object map[string]any) (owners []ownerReference) {
	metadata, _ := object["metadata"].(map[string]any)
	refs, _ := metadata["ownerReferences"].([]any)
	for _, r := range refs {
		ref, _ := r.(map[string]any)
		kind, _ := ref["kind"].(string)
		name, _ := ref["name"].(string)
		owners = append(owners, ownerReference{kind, name})
	}
	return owners
}
