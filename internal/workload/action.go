package workload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Object is any Kubernetes object.
type Object interface {
	metav1.Object
	runtime.Object
}

// Verb is what an Action does, in the API's words.
type Verb string

// The verbs of actions.
const (
	Create Verb = "create"
	Patch  Verb = "patch"
	Delete Verb = "delete"
)

// Action is one write that was decided, or several on one object that follow each
// other.
type Action struct {
	Verb Verb
	// Object is what is made or, of the other verbs, what was decided on.
	Object Object
	// PatchType and Patch are the body of a Patch. It names the UID itself, or leaves that
	// to Named. It is encoded when it is sent: a plan may hold hundreds.
	PatchType types.PatchType
	Patch     json.Marshaler
	// Subresource is what a Patch is sent to, "" for the object itself.
	Subresource string
	// Exact says that the write is for no other version of the object than the one
	// that was decided on. Its UID always counts.
	Exact bool
	// Then is done to what the write leaves, if it leaves anything and had effect.
	Then *Action
	// Reason is why.
	Reason Reason
	// Event is the reason of an Event that is emitted about the owner when the write has had effect,
	// "" for none but those that every write of its kind emits.
	Event string
}

// Applier is a Patch that can say what it makes of an object. Whoever sends that one whole
// saves the API server the work of merging.
type Applier interface {
	// Applied is the object after the patch, nil if only the API can tell. The object that it is
	// given stays as it is; what the patch does not change is shared with it.
	Applied(Object) Object
}

// Reason explains a part of a decision.
type Reason struct {
	// Code is one word for events and metrics, such as "SuccessfulCreate" or
	// "WaitsForBackoff".
	Code string
	// Text is the sentence for people.
	Text string
}

// Soonest is the earlier of two waits; zero is none.
func Soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Body is the Patch, encoded.
func (a *Action) Body() []byte {
	text, err := a.Patch.MarshalJSON()
	if err != nil {
		panic(err) // planners put in what can be encoded
	}
	return text
}

// Named returns a patch that begins with metadata as it is sent: for the object with this UID and, if
// revision is not empty, for that version of it only. A patch that begins with a UID is returned as it is.
func Named(patch []byte, uid types.UID, revision string) []byte {
	const begin = `{"metadata":{`
	rest, ok := bytes.CutPrefix(patch, []byte(begin))
	if bytes.HasPrefix(rest, []byte(`"uid":`)) {
		return patch
	}
	if !ok {
		panic("a patch that does not begin with metadata: " + string(patch))
	}
	named := fmt.Appendf(nil, `%s"uid":%q`, begin, uid)
	if revision != "" {
		named = fmt.Appendf(named, `,"resourceVersion":%q`, revision)
	}
	if len(rest) > 0 && rest[0] != '}' {
		named = append(named, ',')
	}
	return append(named, rest...)
}
