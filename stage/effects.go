package stage

import (
	"encoding/json"
	"maps"

	"k8s.io/apimachinery/pkg/types"
)

// Write is the way in which Effects.Object is written.
type Write uint8

// The ways to write.
const (
	// WriteNothing: the object does not change.
	WriteNothing Write = iota
	// WriteStatus: update the status subresource with the object. The update contains changed finalizers too, so
	// that a stage needs at most one write: for pods and nodes the API server accepts changed metadata in such an
	// update.
	WriteStatus
	// WriteObject: update the object itself, because only finalizers changed.
	WriteObject
)

// Event is a Kubernetes Event to emit for the object.
type Event struct {
	Type, Reason, Message string
	// Step is the operation that contains the Event. Emit it after all operations before it have succeeded.
	Step int
}

// Effects are the writes of one stage for one version of one object, in this order: at most one update, the
// requests, at most one delete; and the Events. A stage of a pod or a node that patches only the status has the
// update, every other stage has requests.
//
// All effects apply to the version of the decision. If a part fails after another has succeeded, the stage resumes
// at the failed part: pass its step to Past.Resume and decide again on the newest version. Parts that then change
// nothing are omitted, so repeating is harmless.
type Effects struct {
	Stage string
	// UID and ResourceVersion are the preconditions of every write.
	UID             types.UID
	ResourceVersion string
	// Object is the whole object to write as Write defines. It shares parts with the object of the decision and
	// must not be changed. Nil with WriteNothing.
	Object Object
	Write  Write
	// Requests are sent in order, each with the resourceVersion from the answer to the previous one.
	Requests []Request
	// Delete is true if the object must be deleted with a grace period of 0. DeleteStep is the operation that
	// deletes it.
	Delete     bool
	DeleteStep int
	Events     []Event
}

// Empty reports whether there is nothing to send.
func (e *Effects) Empty() bool { return !e.Writes() && len(e.Events) == 0 }

// Writes reports whether there is anything to send except Events.
func (e *Effects) Writes() bool {
	return e.Write != WriteNothing || e.Delete || len(e.Requests) > 0
}

// Verb is the kind of a request.
type Verb uint8

// The verbs.
const (
	// VerbPatch patches an existing object.
	VerbPatch Verb = iota
	// VerbApply creates or changes an object so that it equals Body: with Type apply by one server-side apply,
	// otherwise by a create or, if the object exists, a patch. With a Subresource the object must exist.
	VerbApply
)

// Request is one write of an ordered list.
type Request struct {
	// Step is the operation that contains the request.
	Step int
	Verb Verb
	// Own is true if the request is for the object of the decision. Only then it has preconditions.
	Own  bool
	UID  types.UID
	Kind Kind
	// Namespace of the object. For another object it is a default: the caller removes it for a cluster-scoped kind.
	Namespace, Name string
	// Subresource is empty for the object itself.
	Subresource string
	Type        types.PatchType
	// As is the user to impersonate; empty for the engine itself.
	As string
	// Body is a JSON value: the patch, or the whole object of an apply. It must not be changed.
	Body any
}

// Payload returns the JSON to send. For the object of the decision, it contains the version as a precondition: a
// merge patch contains UID and resourceVersion in its metadata, and a JSON patch tests both first.
func (r *Request) Payload(resourceVersion string) ([]byte, error) {
	if !r.Own {
		return json.Marshal(r.Body)
	}
	switch body := r.Body.(type) {
	case []any:
		test := func(path, value string) any {
			return map[string]any{"op": "test", "path": path, "value": value}
		}
		return json.Marshal(append([]any{
			test("/metadata/uid", string(r.UID)), test("/metadata/resourceVersion", resourceVersion),
		}, body...))
	case map[string]any:
		out := maps.Clone(body)
		metadata, _ := out["metadata"].(map[string]any)
		if metadata = maps.Clone(metadata); metadata == nil {
			metadata = map[string]any{}
		}
		metadata["uid"], metadata["resourceVersion"] = string(r.UID), resourceVersion
		out["metadata"] = metadata
		return json.Marshal(out)
	}
	return json.Marshal(r.Body)
}
