package stage

import (
	"encoding/json"
	"maps"

	"k8s.io/apimachinery/pkg/types"
)

// Write says how Effects.Object is to be written.
type Write uint8

// The ways to write.
const (
	// WriteNothing: the object stays as it is.
	WriteNothing Write = iota
	// WriteStatus: update the status subresource with the object. It carries
	// changed finalizers too, so that a stage is one write or none: of pods and
	// nodes the API server takes metadata from such an update.
	WriteStatus
	// WriteObject: update the object itself; only finalizers changed.
	WriteObject
)

// Event is a Kubernetes event to record about the object.
type Event struct {
	Type, Reason, Message string
	// Step is the operation it stands in; it is to be recorded once all before
	// it are done.
	Step int
}

// Effects is what one stage does to one version of one object, in this order: at most one update, the requests, at
// most one delete; and the events. A stage of a pod or a node that patches only the status has the update, every
// other stage has requests.
//
// All of it applies to the version that was decided on. If a part fails after another succeeded, the stage resumes
// at the failed part: pass its step to Past.Resume and decide again on the newest version. Parts that change
// nothing there are left out, so repeating is harmless.
type Effects struct {
	Stage string
	// UID and ResourceVersion are the preconditions of every write.
	UID             types.UID
	ResourceVersion string
	// Object is the whole object to be written as Write says; it shares parts
	// with the one decided on and must not be changed. Nil with WriteNothing.
	Object Object
	Write  Write
	// Requests are to be sent in order, each with the resourceVersion that the
	// answer to the one before carried.
	Requests []Request
	// Delete asks to delete the object with a grace period of 0. DeleteStep is
	// the operation that asks for it.
	Delete     bool
	DeleteStep int
	Events     []Event
}

// Empty reports whether nothing is to be sent.
func (e *Effects) Empty() bool { return !e.Writes() && len(e.Events) == 0 }

// Writes reports whether anything but events is to be sent.
func (e *Effects) Writes() bool {
	return e.Write != WriteNothing || e.Delete || len(e.Requests) > 0
}

// Verb is how a request is made.
type Verb uint8

// The verbs.
const (
	// VerbPatch patches an object that is there.
	VerbPatch Verb = iota
	// VerbApply makes sure that an object exists and is as Body says: with Type
	// apply one server-side apply, otherwise a create and, where it exists, a
	// patch. With a Subresource the object has to exist.
	VerbApply
)

// Request is one write of an ordered list.
type Request struct {
	// Step is the operation it stands in.
	Step int
	Verb Verb
	// Own is true when the request is about the object decided on; only then
	// has it preconditions.
	Own  bool
	UID  types.UID
	Kind Kind
	// Namespace of the object. For another object it is a default: the shell
	// drops it where the kind has no namespaces.
	Namespace, Name string
	// Subresource is empty for the object itself.
	Subresource string
	Type        types.PatchType
	// As is the user to act as; empty for the engine itself.
	As string
	// Body is a JSON value: the patch, or the whole object of an apply. It must
	// not be changed.
	Body any
}

// Payload is the JSON to send: of an object of our own, it holds only on the
// version named. A merge carries UID and resourceVersion in its metadata, a JSON
// patch tests both first.
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
