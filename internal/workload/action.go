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

// Action is one decided write, or several writes that follow each other.
type Action struct {
	Verb Verb
	// Object is the object to create or, for other verbs, the observed object.
	Object Object
	// PatchType and Patch are the body of a patch. The body contains the UID, or Named adds it. It is
	// encoded when it is sent, because a plan may contain hundreds.
	PatchType types.PatchType
	Patch     json.Marshaler
	// Subresource is the subresource that a patch is sent to, "" for the object itself.
	Subresource string
	// Exact makes the observed resourceVersion a precondition of the write. The UID is always one.
	Exact bool
	// Then is the next write, carried out after this one has succeeded, on the object that it returned.
	Then *Action
	// Reason explains why the planner decided the write.
	Reason Reason
	// Event is the reason of an Event that is emitted about the owner after the write has succeeded, in
	// addition to those that each write of its kind emits; "" for none.
	Event string
}

// Applier is a Patch that can compute the patched object. A controller that sends the whole object
// saves the API server the merge.
type Applier interface {
	// Applied returns the object after the patch, nil if only the API can compute it. It does not
	// change its argument; the result shares with it what the patch does not change.
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

// Soonest returns the shorter of two waits; zero means none.
func Soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Body encodes the Patch.
func (a *Action) Body() []byte {
	text, err := a.Patch.MarshalJSON()
	if err != nil {
		panic(err) // planners create only patches that can be encoded
	}
	return text
}

// Named adds the preconditions to a patch whose first field is metadata: the UID and, if it is not
// empty, the resourceVersion. It returns a patch that already starts with a UID unchanged.
func Named(patch []byte, uid types.UID, revision string) []byte {
	const begin = `{"metadata":{`
	rest, ok := bytes.CutPrefix(patch, []byte(begin))
	if bytes.HasPrefix(rest, []byte(`"uid":`)) {
		return patch
	}
	if !ok {
		panic("workload: the first field of a patch must be metadata: " + string(patch))
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
