package fault

import (
	"fmt"
	"time"
)

// Level says whether a controller that fails under a fault has a bug.
type Level int

const (
	// Legal faults are within the API's contract: a controller that fails under one has a bug.
	Legal Level = iota
	// Seen faults violate the contract, but released servers have shown them
	// (etcd tests/robustness/README.md lists the issues).
	Seen
	// Adversarial faults have not been seen. They show how much a controller tolerates.
	Adversarial
)

var levelNames = [...]string{"legal", "seen", "adversarial"}

// String returns the name of the level.
func (l Level) String() string {
	if l < 0 || int(l) >= len(levelNames) {
		return fmt.Sprintf("Level(%d)", int(l))
	}
	return levelNames[l]
}

// ParseLevel parses legal, seen or adversarial.
func ParseLevel(text string) (Level, error) {
	for i, name := range levelNames {
		if text == name {
			return Level(i), nil
		}
	}
	return 0, fmt.Errorf("fault level %q: want legal, seen or adversarial", text)
}

// Kind is a kind of fault.
type Kind string

// The kinds. "At the nth" counts what the other fields of the fault match.
const (
	// KindLag holds a watch stream from the nth event on; then everything held is delivered
	// in order. Other streams continue, which reorders events across resources.
	KindLag Kind = "lag"
	// KindRelist holds a stream from the nth event on; then the stream ends, the held events are
	// lost, and the next watch from a revision is answered 410, so that the informer lists
	// again: it observes coalesced changes, and deletes as tombstones.
	KindRelist Kind = "relist"
	// KindDisconnect ends the stream at the nth event. The client receives the event when it
	// watches again from the last revision that it saw.
	KindDisconnect Kind = "disconnect"
	// KindDropBookmark loses the nth progress bookmark, never the one that ends the initial
	// events.
	KindDropBookmark Kind = "drop-bookmark"

	// KindConflict answers the nth write 409, without effect. It acts only on writes with a
	// resourceVersion or UID, and on patches.
	KindConflict Kind = "conflict"
	// KindThrottle answers the nth request 429 with Retry-After, without effect.
	KindThrottle Kind = "throttle"
	// KindError answers the nth request 500, without effect.
	KindError Kind = "error"
	// KindTimeout discards the nth request: no effect, and no answer until the client times out.
	KindTimeout Kind = "timeout"
	// KindLostAnswer lets the nth write have its effect and loses its answer.
	KindLostAnswer Kind = "lost-answer"
	// KindLateAnswer lets the nth write have its effect and holds its answer: the watch event may
	// be delivered first.
	KindLateAnswer Kind = "late-answer"
	// KindLateRequest holds the nth request before it has an effect.
	KindLateRequest Kind = "late-request"

	// KindCrashBefore terminates the actor at its nth write, before it has an effect;
	// KindCrashAfter after that. The actor is started again, with empty caches.
	KindCrashBefore Kind = "crash-before"
	// KindCrash as a pattern stands for both; as a fault it is KindCrashBefore.
	KindCrash      Kind = "crash"
	KindCrashAfter Kind = "crash-after"
	// KindOverlap starts a second instance of the actor after its nth write; the first one
	// continues for a while, as in a rollout without leader election.
	KindOverlap Kind = "overlap"
	// KindPause holds all requests and events of the actor from its nth write on. If the actor
	// is the leader, another replica may become leader before it continues.
	KindPause Kind = "pause"

	// Interference by another user, right after the nth write that matches: the object of the
	// write is deleted, evicted (a pod), gets a label, or gets a finalizer that is removed later.
	KindDelete    Kind = "delete"
	KindEvict     Kind = "evict"
	KindLabel     Kind = "label"
	KindFinalizer Kind = "finalizer" // adds InterferenceFinalizer for a while

	// KindLoseEvent loses the nth event of a stream (etcd #17529, #18089, #19179);
	// KindRepeatEvent delivers it twice (etcd #17247).
	KindLoseEvent   Kind = "lose-event"
	KindRepeatEvent Kind = "repeat-event"

	// KindTimeTravel terminates the actor at its nth write; its next instance lists from a server
	// whose state is older (etcd #15271).
	KindTimeTravel Kind = "time-travel"
)

// InterferenceFinalizer is the finalizer of another owner that KindFinalizer adds.
const InterferenceFinalizer = "rehearse-k8s.github.io/somebody-else"

// Class is what faults of a kind act on.
type Class int

const (
	// Event faults act on watch events.
	Event Class = iota
	// Call faults act on requests.
	Call
	// Process faults act on an actor, at one of its writes.
	Process
	// Interference acts on an object, after a write of it.
	Interference
)

type trait struct {
	kind  Kind
	level Level
	class Class
	holds bool // For and Writes mean something
}

// traits lists all kinds, in the order in which a search tries them: those that find most
// first.
var traits = []trait{
	{KindLag, Legal, Event, true},
	{KindCrashAfter, Legal, Process, true},
	{KindLostAnswer, Legal, Call, false},
	{KindRelist, Legal, Event, true},
	{KindCrashBefore, Legal, Process, true},
	{KindCrash, Legal, Process, true},
	{KindConflict, Legal, Call, false},
	{KindLateAnswer, Legal, Call, true},
	{KindLateRequest, Legal, Call, true},
	{KindDelete, Legal, Interference, false},
	{KindError, Legal, Call, false},
	{KindTimeout, Legal, Call, false},
	{KindPause, Legal, Process, true},
	{KindThrottle, Legal, Call, true},
	{KindDisconnect, Legal, Event, false},
	{KindDropBookmark, Legal, Event, false},
	{KindOverlap, Legal, Process, true},
	{KindEvict, Legal, Interference, false},
	{KindLabel, Legal, Interference, false},
	{KindFinalizer, Legal, Interference, true},
	{KindLoseEvent, Seen, Event, false},
	{KindRepeatEvent, Seen, Event, false},
	{KindTimeTravel, Adversarial, Process, true},
}

func traitOf(k Kind) (trait, bool) {
	for _, t := range traits {
		if t.kind == k {
			return t, true
		}
	}
	return trait{}, false
}

// Kinds returns all kinds up to a level, those that find most first, without KindCrash, which
// stands for two others.
func Kinds(upTo Level) (kinds []Kind) {
	for _, t := range traits {
		if t.level <= upTo && t.kind != KindCrash {
			kinds = append(kinds, t.kind)
		}
	}
	return kinds
}

// Level returns the level of the kind; Adversarial for an unknown kind.
func (k Kind) Level() Level {
	if t, ok := traitOf(k); ok {
		return t.level
	}
	return Adversarial
}

// Class returns the class of the kind.
func (k Kind) Class() Class {
	t, _ := traitOf(k)
	return t.class
}

// Holds reports whether faults of the kind hold something for a while.
func (k Kind) Holds() bool {
	t, _ := traitOf(k)
	return t.holds
}

// Fault is one thing that goes wrong. Empty fields match anything.
type Fault struct {
	Kind Kind
	// Actor is the client whose events or requests match: "cloneset", or one replica, "cloneset/0".
	Actor string
	// Verb of the request; events have none.
	Verb string
	// Resource is "pods" or "jobs.batch"; "pods/status" for a subresource.
	Resource string
	// Object is namespace/name, or the name of an object without a namespace.
	Object string
	// Nth is the number of the matching request or event, from 1. 0 leaves it to the search.
	Nth int

	// For and Writes limit a hold: to a time of the run's clock, or to a number of further
	// writes by any client. If both are zero, the hold ends when nothing else can happen
	// without time passing; with Writes it ends then at the latest.
	For    time.Duration
	Writes int
	// Until ends a hold when a watch of this resource has delivered an event to the same actor
	// that is newer than what is held, or that has UntilRevision or a later one. It defines an
	// order between the events of two resources.
	Until         string
	UntilRevision int64
}

// Lag returns the pattern of late events of a resource, for any actor.
func Lag(resource string) Fault { return Fault{Kind: KindLag, Resource: resource} }

// Relist returns the pattern of an expired watch (410) and a new list.
func Relist(resource string) Fault { return Fault{Kind: KindRelist, Resource: resource} }

// Disconnect returns the pattern of a watch that ends and is resumed.
func Disconnect(resource string) Fault { return Fault{Kind: KindDisconnect, Resource: resource} }

// Conflict returns the pattern of a 409 on writes of a resource.
func Conflict(resource string) Fault { return Fault{Kind: KindConflict, Resource: resource} }

// LostAnswer returns the pattern of a write that had its effect and whose answer was lost.
func LostAnswer(actor string) Fault { return Fault{Kind: KindLostAnswer, Actor: actor} }

// Crash returns the pattern of an actor that crashes right before or right after one of its
// writes and is started again.
func Crash(actor string) Fault { return Fault{Kind: KindCrash, Actor: actor} }

// Pause returns the pattern of an actor that is paused for a while.
func Pause(actor string) Fault { return Fault{Kind: KindPause, Actor: actor} }

// Of returns the pattern of any fault of a kind.
func Of(kind Kind) Fault { return Fault{Kind: kind} }

// Any returns the patterns of all faults up to a level.
func Any(upTo Level) (faults []Fault) {
	for _, k := range Kinds(upTo) {
		faults = append(faults, Of(k))
	}
	return faults
}
