package report

import (
	"strings"

	"github.com/rehearse-k8s/rehearse/history"
)

// differingWrite returns, for a difference between end states, the write of a controller that gave the field the
// value that no passing run has, or created the object that no passing run has. It returns nil if the
// passing run changes that object again: then the missing write explains the difference, and t.differs is the last
// write of the object.
func (t *explainer) differingWrite(nearest *history.Run) *history.Step {
	f := t.run.Failure
	if f.Resource == "" {
		return nil
	}
	var setter *history.Step
	last := map[objectKey]*history.Step{}
	states := newArchive(t.run)
	for i := range t.run.Steps {
		s := &t.run.Steps[i]
		for c := range s.Changes {
			change := &s.Changes[c]
			key := keyOf(change.Object)
			after, _ := states.at(key, change.Revision, nil)
			if key.resource != f.Resource || after.object == nil || !concerns(f.Message, change.Object, after.object) {
				continue
			}
			last[key] = s
			before, _ := states.at(key, change.Revision-1, nil)
			if f.Path != "" && valueAt(before.object, f.Path) != valueAt(after.object, f.Path) {
				setter = s
			}
			if f.Path == "" && before.object == nil {
				setter = s
			}
		}
	}
	if setter == nil || f.Path == "" && !t.createsMore(nearest, f.Resource) {
		return nil
	}
	missing, _ := t.missingWrite(nearest, setter.Object, true)
	if !t.isController(setter.Actor) || missing != nil && isObject(missing, setter.Object) {
		t.differs = last[keyOf(setter.Object)]
		return nil
	}
	return setter
}

// createsMore reports whether controllers create more objects of a resource in this run than in a passing run.
func (t *explainer) createsMore(nearest *history.Run, resource string) bool {
	if nearest == nil {
		return false
	}
	creates := func(run *history.Run) (n int) {
		for i := range run.Steps {
			if s := &run.Steps[i]; s.Wrote() && s.Verb == "create" && s.Subresource == "" && s.Resource == resource && t.isController(strings.TrimRight(s.Actor, "+")) {
				n++
			}
		}
		return n
	}
	return creates(t.run) > creates(nearest)
}

func (t *explainer) isController(actor string) bool {
	for _, c := range t.controllers {
		if history.IsActor(c, actor) || c == actor {
			return true
		}
	}
	return false
}

// concerns reports whether a message names an object, or the owner of an object whose name the server or the
// controller generated. A message without an owner concerns every object.
func concerns(message string, o history.Object, object map[string]any) bool {
	subject, _, _ := strings.Cut(message, ": ")
	_, of, owned := strings.Cut(subject, " of ")
	if !owned {
		return mentions(subject, o) == 2 || !strings.Contains(subject, "/")
	}
	for _, owner := range ownersOf(object) {
		if text := owner.kind + " " + owner.name; of == o.Namespace+"/"+text || of == text {
			return true
		}
	}
	return false
}

// valueAt returns the value of a field as JSON, by its path; "" if it is not set.
func valueAt(object map[string]any, path string) string {
	fields := map[string]string{}
	flatten("", object, fields)
	return fields[path]
}
