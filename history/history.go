package history

import (
	"fmt"
	"strings"
	"time"
)

// Format is the version of the record. A reader refuses any other.
const Format = 1

// Run is one run, from its first step to its verdict.
type Run struct {
	Header
	Steps []Step
	// Failure says what broke; nil when everything held.
	Failure *Failure
	// Inconclusive says why the run could not be judged (a budget ran out, it
	// departed from what it was to repeat); empty otherwise.
	Inconclusive string
}

// Header says what was run.
type Header struct {
	Format int    `json:"format"`
	Tool   string `json:"tool,omitempty"` // version of rehearse
	Test   string `json:"test,omitempty"` // the test's name, or the scenario's file
	// Command is what was rehearsed of a scenario that leaves that to the command line.
	Command []string `json:"command,omitempty"`
	Seed    uint64   `json:"seed"`
	// Faults is what went wrong on purpose, in the text form of package fault.
	Faults []string `json:"faults,omitempty"`
	// Start is the run's clock at step 0.
	Start time.Time `json:"start"`
	// Live says that real processes ran by the machine's clock. Which step led to a
	// request is then inferred from their order.
	Live bool `json:"live,omitempty"`
}

// Failure is a promise that was broken.
type Failure struct {
	// Oracle names the promise, as in "at most 3 pods of CloneSet default/web".
	Oracle string `json:"oracle"`
	// Message says what was seen instead.
	Message string `json:"message"`
	// Step is the last step before it was seen.
	Step int           `json:"step"`
	At   time.Duration `json:"at"`
}

// Kind is what sort of thing a step is.
type Kind string

// The kinds of steps.
const (
	// Start: an actor begins, with empty caches. Crash: it ends in the middle of
	// whatever it did. Its later words reach nobody.
	Start Kind = "start"
	Crash Kind = "crash"
	// Request: the API served (or a fault refused) a request of an actor. Unless
	// Answer says otherwise the actor got the answer in the same step.
	Request Kind = "request"
	// Answer: the answer of an earlier request, held until now, reaches its actor.
	Answer Kind = "answer"
	// Frame: one watch event reaches an actor.
	Frame Kind = "frame"
	// Cut: a watch stream of an actor ends.
	Cut Kind = "cut"
	// Time: the run's clock went on; nothing else could happen.
	Time Kind = "time"
	// Fault: something that goes wrong by itself, belonging to no request or
	// event: it begins or ends.
	Fault Kind = "fault"
)

// Step is one thing that happened. Which fields are set depends on the Kind.
type Step struct {
	N    int           `json:"n"`
	At   time.Duration `json:"at"` // the run's clock since its start, in nanoseconds
	Kind Kind          `json:"kind"`
	// Actor is who made the request or received the event: a controller, "user",
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

	// Code is the HTTP status that the API (or the fault) answered with.
	Code int `json:"code,omitempty"`
	// Reply says what became of the answer if it did not reach the actor in this
	// step: "lost" or "late".
	Reply string `json:"reply,omitempty"`
	// Revision is what the object has after this write or read, or what the frame
	// carries. Before is what the written object had before; 0: it did not exist,
	// or the request wrote nothing.
	Revision int64 `json:"rev,omitempty"`
	Before   int64 `json:"before,omitempty"`
	// Truth is the newest revision of the world after this step.
	Truth int64 `json:"truth,omitempty"`
	// Guarded says that the write named the resourceVersion or UID it was decided on.
	Guarded bool `json:"guarded,omitempty"`
	// Digest is of the request's body or the frame's.
	Digest string `json:"digest,omitempty"`

	// Fault is the fault that acted here, in text form.
	Fault string `json:"fault,omitempty"`
	// Note explains the step to people. It is no part of the hash.
	Note string `json:"note,omitempty"`
	// Causes are the steps without which this one would not have happened.
	Causes []int `json:"causes,omitempty"`
	// Changes is what a write did to objects, if the record has that. It is no part
	// of the hash.
	Changes []Change `json:"changes,omitempty"`
	// Hash is the running hash of all steps up to this one.
	Hash Hash `json:"hash"`
}

// Object names an object of the API.
type Object struct {
	// Resource is "pods" or "jobs.batch", as kubectl writes it.
	Resource  string `json:"resource,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
}

// Key is namespace/name, or the name alone for objects without a namespace.
func (o Object) Key() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

// String is "pods default/web-1".
func (o Object) String() string { return strings.TrimSpace(o.Resource + " " + o.Key()) }

// Wrote tells whether the step is a request that changed the world.
func (s *Step) Wrote() bool {
	return s.Kind == Request && s.IsWrite() && s.Revision != 0 && s.Revision != s.Before && s.Code/100 == 2
}

// IsWrite tells whether the step is a request of a verb that writes, whether or
// not it did.
func (s *Step) IsWrite() bool { return IsWriteVerb(s.Verb) }

// IsWriteVerb tells whether requests of this verb change objects.
func IsWriteVerb(verb string) bool {
	switch verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

// Bookkeeping tells a resource whose writes say nothing about what a controller wants:
// Events, and the leases of nodes and of leaders.
func Bookkeeping(resource string) bool {
	return resource == "events" || resource == "events.events.k8s.io" || resource == "leases.coordination.k8s.io"
}

// LastWriter says who wrote last and what, bookkeeping aside; "nobody" if nobody did.
func (r *Run) LastWriter() string {
	for n := len(r.Steps) - 1; n >= 0; n-- {
		if s := &r.Steps[n]; s.Wrote() && !Bookkeeping(s.Resource) {
			return fmt.Sprintf("%s %ss %s (step %d, at %s)", s.Actor, s.Verb, s.Object, s.N, s.At)
		}
	}
	return "nobody"
}

// Controllers are the actors that were started in this run, in the order of
// their first start.
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

// Hash of the last step: two runs with the same one went the same way.
func (r *Run) Hash() Hash {
	if len(r.Steps) == 0 {
		return seedHash
	}
	return r.Steps[len(r.Steps)-1].Hash
}

// Add appends a step: it gets its number and its hash. Bytes that are no UTF-8 are
// replaced, as JSON would: a hash must survive being written down.
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
