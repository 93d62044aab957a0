package history

import (
	"fmt"
	"strings"
	"time"
)

// Format is the version of the record. Read rejects any other.
const Format = 1

// Run is one run, from its first step to its result.
type Run struct {
	Header
	Steps []Step
	// Failure is the violated invariant; nil if the run passed.
	Failure *Failure
	// Inconclusive says why the run has no result (a budget ran out, a replay diverged); empty
	// otherwise.
	Inconclusive string
}

// Header says what was run.
type Header struct {
	Format int    `json:"format"`
	Tool   string `json:"tool,omitempty"` // version of rehearse
	Test   string `json:"test,omitempty"` // the test's name, or the scenario's file
	// Command is the command under test, if the scenario leaves it to the command line.
	Command []string `json:"command,omitempty"`
	Seed    uint64   `json:"seed"`
	// Faults are the injected faults, in the text form of package fault.
	Faults []string `json:"faults,omitempty"`
	// Schedule decides which of several actions is next; the zero value in records of real processes, whose order
	// cannot be chosen.
	Schedule Schedule `json:"schedule,omitzero"`
	// Start is the run's clock at step 0.
	Start time.Time `json:"start"`
	// Live says that real processes ran on the machine's clock. The causes of a request are then
	// inferred from the order of steps.
	Live bool `json:"live,omitempty"`
}

// Failure is an invariant that was violated.
type Failure struct {
	// Oracle names the invariant, as in "at most 3 pods of CloneSet default/web".
	Oracle string `json:"oracle"`
	// Message says what was observed instead.
	Message string `json:"message"`
	// Step is the last step before the violation was observed.
	Step int           `json:"step"`
	At   time.Duration `json:"at"`
	// AtEnd says that something was missing at the end of the run: the step is the last one, and did not cause the
	// violation.
	AtEnd bool `json:"atEnd,omitempty"`
	// Resource and Path are, for a difference between the final states of runs, the resource of the object and
	// the field that differs. Path is empty if the number of objects differs.
	Resource string `json:"resource,omitempty"`
	Path     string `json:"path,omitempty"`
	// Switch is, for an automatic invariant, what the author of the scenario or the test writes
	// to accept the violation.
	Switch string `json:"switch,omitempty"`
}

// User is the actor of the requests of the scenario or the test.
const User = "user"

// OtherUser is the actor of the requests that another user sends: interference, and the writes that compete with those
// of a controller.
const OtherUser = "other-user"

// IsActor reports whether an actor is the one with a name, or one of its replicas and instances: "job" stands for
// "job/1" and for "job+", its second instance.
func IsActor(name, actor string) bool {
	return actor == name || strings.HasPrefix(actor, name+"/") || strings.HasPrefix(actor, name+"+")
}

// Kind is what sort of thing a step is.
type Kind string

// The kinds of steps.
const (
	// Start: an actor starts, with empty caches. Crash: it terminates; its later requests are
	// dropped.
	Start Kind = "start"
	Crash Kind = "crash"
	// Request: the API served (or a fault rejected) a request of an actor. Unless an Answer follows,
	// the actor received the answer in the same step.
	Request Kind = "request"
	// Answer: the answer to an earlier request, delayed until now, is delivered.
	Answer Kind = "answer"
	// Frame: one watch event is delivered to an actor.
	Frame Kind = "frame"
	// Cut: a watch stream of an actor ends.
	Cut Kind = "cut"
	// Time: the run's clock went on; nothing else could happen.
	Time Kind = "time"
	// Fault: a fault that belongs to no request or event begins or ends.
	Fault Kind = "fault"
)

// Step is one event of a run. Which fields are set depends on its Kind.
type Step struct {
	N    int           `json:"n"`
	At   time.Duration `json:"at"` // the run's clock since its start, in nanoseconds
	Kind Kind          `json:"kind"`
	// Actor sent the request or received the event: a controller, "user",
	// "kubelet". Two replicas are "name/0" and "name/1".
	Actor string `json:"actor,omitempty"`

	// Verb is get, list, watch, create, update, patch, delete, deletecollection.
	Verb string `json:"verb,omitempty"`
	Object
	Subresource string `json:"sub,omitempty"`
	// Query is what a list or watch selects, in canonical order, without what
	// only says how it is to be sent.
	Query string `json:"query,omitempty"`

	// Type of a frame: ADDED, MODIFIED, DELETED, BOOKMARK, ERROR.
	Type string `json:"type,omitempty"`
	// Stream numbers the watch streams of a run from 1.
	Stream int `json:"stream,omitempty"`

	// Code is the HTTP status that the API (or the fault) answered with. 410 for a watch whose stream consists
	// of one ERROR frame with that code.
	Code int `json:"code,omitempty"`
	// Reply is "lost" or "late" if the answer was not delivered in this step, and "error" if the client received an
	// error in place of it.
	Reply string `json:"reply,omitempty"`
	// Revision is what the object has after this write or read, or what the frame
	// carries. Before is what the written object had before; 0: it did not exist,
	// or the request wrote nothing.
	Revision int64 `json:"rev,omitempty"`
	Before   int64 `json:"before,omitempty"`
	// Truth is the API's newest revision after this step.
	Truth int64 `json:"truth,omitempty"`
	// Guarded says that the write named the resourceVersion or UID it was decided on.
	Guarded bool `json:"guarded,omitempty"`
	// Versioned says that the write named a resourceVersion, so the API answers 409 if another client has
	// written the object. It is not part of the hash: the digest of the body implies it.
	Versioned bool `json:"versioned,omitempty"`
	// Older says that a list permitted an answer from an older state (resourceVersion=0, or not older than a revision), or
	// that a watch sent the initial objects, which client-go replaces by such a list if it fails. It is not part of the hash.
	Older bool `json:"older,omitempty"`
	// Digest is of the request's body or the frame's.
	Digest string `json:"digest,omitempty"`

	// Fault is the fault that acted here, in text form.
	Fault string `json:"fault,omitempty"`
	// Note explains the step to people. It is not part of the hash.
	Note string `json:"note,omitempty"`
	// Causes are the steps without which this one would not have happened.
	Causes []int `json:"causes,omitempty"`
	// Unrecorded are requests and events that had arrived before this step and have no step of their own: their client was terminated or has
	// withdrawn them, or their stream ended. A fault counts them (see fault.Plan). The write of a deposed leader, which is served later, is
	// among them too. Records of real processes have no such events. It is not part of the hash.
	Unrecorded []Arrival `json:"unrecorded,omitempty"`
	// Changes is what a write did to objects, if the record has it. It is not part of the hash.
	Changes []Change `json:"changes,omitempty"`
	// Hash is the running hash of all steps up to this one.
	Hash Hash `json:"hash"`
}

// Arrival is a request or an event that has no step: of each, what a fault can name. Its fields are those of a Step.
type Arrival struct {
	Kind  Kind   `json:"kind"`
	Actor string `json:"actor"`
	Verb  string `json:"verb,omitempty"`
	Object
	Subresource string `json:"sub,omitempty"`
	Query       string `json:"query,omitempty"`
	Type        string `json:"type,omitempty"`
	Versioned   bool   `json:"versioned,omitempty"`
	Older       bool   `json:"older,omitempty"`
	Note        string `json:"note,omitempty"`
}

// Arrived returns what a fault can name of a request or an event.
func (s *Step) Arrived() Arrival {
	return Arrival{s.Kind, s.Actor, s.Verb, s.Object, s.Subresource, s.Query, s.Type, s.Versioned, s.Older, s.Note}
}

// Step returns the step that the arrival would have.
func (a *Arrival) Step() Step {
	return Step{
		Kind: a.Kind, Actor: a.Actor, Verb: a.Verb, Object: a.Object, Subresource: a.Subresource, Query: a.Query, Type: a.Type,
		Versioned: a.Versioned, Older: a.Older, Note: a.Note,
	}
}

// Object names an object of the API.
type Object struct {
	// Resource is "pods" or "jobs.batch", as kubectl writes it.
	Resource  string `json:"resource,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
}

// Key returns namespace/name, or the name alone for an object without a namespace.
func (o Object) Key() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

// String returns, for example, "pods default/web-1".
func (o Object) String() string { return strings.TrimSpace(o.Resource + " " + o.Key()) }

// Wrote reports whether the step is a request that changed an object.
func (s *Step) Wrote() bool {
	return s.Kind == Request && s.IsWrite() && s.Revision != 0 && s.Revision != s.Before && s.Code/100 == 2
}

// IsWrite reports whether the step is a request of a verb that writes, whether or not it changed an
// object.
func (s *Step) IsWrite() bool { return IsWriteVerb(s.Verb) }

// Continues reports whether the step is a request for a further page of a list.
func (s *Step) Continues() bool {
	return s.Verb == "list" && (strings.HasPrefix(s.Query, "continue=") || strings.Contains(s.Query, "&continue="))
}

// IsWriteVerb reports whether requests of this verb change objects.
func IsWriteVerb(verb string) bool {
	switch verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

// Bookkeeping reports whether writes of a resource say nothing about a controller's goal: Events, and
// the Leases of nodes and of leaders.
func Bookkeeping(resource string) bool {
	return resource == "events" || resource == "events.events.k8s.io" || resource == "leases.coordination.k8s.io"
}

// LastWriter describes the last write and its actor, without bookkeeping; "no actor" if there was
// none.
func (r *Run) LastWriter() string {
	for n := len(r.Steps) - 1; n >= 0; n-- {
		if s := &r.Steps[n]; s.Wrote() && !Bookkeeping(s.Resource) {
			return fmt.Sprintf("%s %ss %s (step %d, at %s)", s.Actor, s.Verb, s.Object, s.N, s.At)
		}
	}
	return "no actor"
}

// Controllers returns the actors that were started in this run, in the order of their first start.
func (r *Run) Controllers() (names []string) {
	seen := map[string]bool{}
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Kind == Start && !seen[s.Actor] {
			seen[s.Actor] = true
			names = append(names, s.Actor)
		}
	}
	return names
}

// Hash returns the hash of the last step: two runs with the same hash have the same steps.
func (r *Run) Hash() Hash {
	if len(r.Steps) == 0 {
		return seedHash
	}
	return r.Steps[len(r.Steps)-1].Hash
}

// Add appends a step and sets its number and its hash. Bytes that are not UTF-8 are replaced, as JSON
// does: the hash must be the same after the record was written and read.
func (r *Run) Add(s Step) *Step {
	s.N = len(r.Steps)
	for _, t := range [...]*string{
		&s.Actor, &s.Verb, &s.Resource, &s.Namespace, &s.Name, &s.UID, &s.Subresource,
		&s.Query, &s.Type, &s.Reply, &s.Digest, &s.Fault, &s.Note,
	} {
		*t = strings.ToValidUTF8(*t, "\uFFFD")
	}
	s.Hash = r.Hash().next(&s)
	r.Steps = append(r.Steps, s)
	return &r.Steps[s.N]
}
