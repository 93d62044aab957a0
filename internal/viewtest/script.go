package viewtest

import (
	"github.com/rehearse-k8s/rehearse/history"
)

// Script is a World whose record a test writes step by step. Its controller "c" watches pods
// (stream 1) and Jobs (stream 2).
type Script struct {
	World
	// Revision is that of the last write.
	Revision int64
}

// NewScript returns a script in which the controller has started.
func NewScript() *Script {
	s := &Script{Revision: 10}
	s.Record.Start = Start
	s.Add(history.Step{Kind: history.Start, Actor: "c"})
	s.Watch(1, "pods", "")
	s.Watch(2, "jobs.batch", "")
	return s
}

// Add appends a step and returns its number.
func (s *Script) Add(step history.Step, causes ...int) int {
	step.Causes, step.Truth = causes, max(step.Revision, s.Revision)
	s.Revision = step.Truth
	step.At = max(step.At, s.Clock)
	s.Clock = step.At
	return s.Record.Add(step).N
}

// Watch has the controller open a watch.
func (s *Script) Watch(stream int, resource, query string) {
	s.Add(history.Step{Kind: history.Request, Actor: "c", Verb: "watch", Stream: stream, Code: 200, Query: query,
		Object: history.Object{Resource: resource}}, 0)
}

// Write adds a write that took effect and was answered at once.
func (s *Script) Write(actor, resource, name string, guarded bool, cause int) int {
	return s.Add(history.Step{Kind: history.Request, Actor: actor, Verb: "patch", Code: 200, Before: 1, Revision: s.Revision + 1, Guarded: guarded,
		Object: history.Object{Resource: resource, Namespace: "default", Name: name}}, cause)
}

// Frame delivers the event of a write to the controller.
func (s *Script) Frame(stream, write int) int {
	w := s.Record.Steps[write]
	return s.Add(history.Step{Kind: history.Frame, Actor: "c", Stream: stream, Type: "MODIFIED", Object: w.Object, Revision: w.Revision}, write)
}
