package fault

import (
	"fmt"
	"time"
)

// Level says who is to blame when a controller fails under a fault.
type Level int

const (
	// Legal faults are within the API's contract: a controller that fails under
	// one has a bug, without argument.
	Legal Level = iota
	// Seen faults broke the contract, but real servers did it
	// (etcd tests/robustness/README.md lists the issues).
	Seen
	// Adversarial faults have not been seen and are of use to learn how much a
	// controller takes.
	Adversarial
)

var levelNames = [...]string{"legal", "seen", "adversarial"}

// String is the level's name.
func (l Level) String() string {
	if l < 0 || int(l) >= len(levelNames) {
		return fmt.Sprintf("Level(%d)", int(l))
	}
	return levelNames[l]
}

// ParseLevel reads legal, seen or adversarial.
func ParseLevel(text string) (Level, error) {
	for i, name := range levelNames {
		if text == name {
			return Level(i), nil
		}
	}
	return 0, fmt.Errorf("fault level %q is none of legal, seen, adversarial", text)
}

// Kind is what goes wrong.
type Kind string

// The kinds. "At the nth" counts what the other fields of the fault match.
const (
	// KindLag holds a watch stream from the nth event on; then everything held
	// arrives in order. Other streams go on: that is reordering across kinds.
	KindLag Kind = "lag"
	// KindRelist holds a stream from the nth event on; then the stream ends, what
	// was held is gone, and the next watch from a revision is answered 410, so
	// that the informer lists anew: history arrives coalesced, deletes as tombstones.
	KindRelist Kind = "relist"
	// KindDisconnect ends the stream at the nth event, which comes again when the
	// client watches on from the last revision it saw.
	KindDisconnect Kind = "disconnect"
	// KindDropBookmark loses the nth progress bookmark; never the one that ends
	// the initial events.
	KindDropBookmark Kind = "drop-bookmark"

	// KindConflict answers the nth write 409, without effect. Only writes that
	// carry a resourceVersion or UID, and patches, may be answered so.
	KindConflict Kind = "conflict"
	// KindThrottle answers the nth request 429 with Retry-After, without effect.
	KindThrottle Kind = "throttle"
	// KindError answers the nth request 500, without effect.
	KindError Kind = "error"
	// KindTimeout lets the nth request have no effect and no answer; the client
	// gives up waiting.
	KindTimeout Kind = "timeout"
	// KindLostAnswer carries the nth write out and loses its answer.
	KindLostAnswer Kind = "lost-answer"
	// KindLateAnswer carries the nth write out and holds its answer: the watch
	// event may come first.
	KindLateAnswer Kind = "late-answer"
	// KindLateRequest holds the nth request before it is carried out.
	KindLateRequest Kind = "late-request"

	// KindCrashBefore ends the actor at its nth write, before it has effect;
	// KindCrashAfter once it has. The actor begins anew, with empty caches.
	KindCrashBefore Kind = "crash-before"
	// KindCrash as a pattern is both; as one fault it is KindCrashBefore.
	KindCrash      Kind = "crash"
	KindCrashAfter Kind = "crash-after"
	// KindOverlap begins a second instance of the actor at its nth write; the
	// first lives on for a while. What a rollout without leader election does.
	KindOverlap Kind = "overlap"
	// KindPause holds all requests and events of the actor from its nth write on.
	// Of a leader: another one takes over before it goes on.
	KindPause Kind = "pause"

	// Interference by somebody else, right after the nth write that matches, on
	// the object it wrote: it is deleted, evicted (a pod), gets a label, or gets a
	// finalizer that goes again later.
	KindDelete    Kind = "delete"
	KindEvict     Kind = "evict"
	KindLabel     Kind = "label"
	KindFinalizer Kind = "finalizer" // puts ForeignFinalizer on an object for a while

	// KindLoseEvent loses the nth event of a stream for good (etcd #17529, #18089,
	// #19179); KindRepeatEvent delivers it twice (etcd #17247).
	KindLoseEvent   Kind = "lose-event"
	KindRepeatEvent Kind = "repeat-event"

	// KindTimeTravel ends the actor at its nth write and lets its next instance
	// list from a server whose state is older (etcd #15271).
	KindTimeTravel Kind = "time-travel"
)

// ForeignFinalizer is what KindFinalizer puts on an object.
const ForeignFinalizer = "rehearse-k8s.github.io/somebody-else"

// Class is what a fault waits for.
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

// traits is the table of all kinds, in the order in which a search tries them:
// those that find most first.
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

// Kinds returns all kinds up to a level, those that find most first. KindCrash is not
// among them: it is two others.
func Kinds(upTo Level) (kinds []Kind) {
	for _, t := range traits {
		if t.level <= upTo && t.kind != KindCrash {
			kinds = append(kinds, t.kind)
		}
	}
	return kinds
}

// Level of the kind; Adversarial for one that is not known.
func (k Kind) Level() Level {
	if t, ok := traitOf(k); ok {
		return t.level
	}
	return Adversarial
}

// Class of the kind.
func (k Kind) Class() Class {
	t, _ := traitOf(k)
	return t.class
}

// Holds tells whether faults of the kind hold something for a while.
func (k Kind) Holds() bool {
	t, _ := traitOf(k)
	return t.holds
}

// Fault is one thing that goes wrong. Empty fields match anything.
type Fault struct {
	Kind Kind
	// Actor is whose events or requests: "cloneset", or one replica, "cloneset/0".
	Actor string
	// Verb of the request; events have none.
	Verb string
	// Resource is "pods" or "jobs.batch"; "pods/status" for a subresource.
	Resource string
	// Object is namespace/name, or the name of an object without a namespace.
	Object string
	// Nth is which of those that match, from 1. 0 leaves it to the search.
	Nth int

	// For and Writes say how long something is held: for a time of the run's
	// clock, or until so many further writes of anybody had effect, or the world
	// has nothing else to do. Both zero: until the world has nothing else to do
	// but wait for time.
	For    time.Duration
	Writes int
	// Until holds something until a watch of this resource has brought the same actor an event
	// that is newer than what is held, or one at UntilRevision: so an order of events of two
	// kinds can be asked for.
	Until         string
	UntilRevision int64
}

// Lag is the pattern of late events of a resource, for any actor.
func Lag(resource string) Fault { return Fault{Kind: KindLag, Resource: resource} }

// Relist is the pattern of an expired watch (410) and a new list.
func Relist(resource string) Fault { return Fault{Kind: KindRelist, Resource: resource} }

// Disconnect is the pattern of a watch that ends and is taken up again.
func Disconnect(resource string) Fault { return Fault{Kind: KindDisconnect, Resource: resource} }

// Conflict is the pattern of a 409 on writes of a resource.
func Conflict(resource string) Fault { return Fault{Kind: KindConflict, Resource: resource} }

// LostAnswer is the pattern of a write that happened and whose answer was lost.
func LostAnswer(actor string) Fault { return Fault{Kind: KindLostAnswer, Actor: actor} }

// Crash is the pattern of an actor that ends right before or right after one of its
// writes and begins anew.
func Crash(actor string) Fault { return Fault{Kind: KindCrash, Actor: actor} }

// Pause is the pattern of an actor that stands still for a while.
func Pause(actor string) Fault { return Fault{Kind: KindPause, Actor: actor} }

// Of is the pattern of any fault of a kind.
func Of(kind Kind) Fault { return Fault{Kind: kind} }

// Any returns the patterns of all faults up to a level.
func Any(upTo Level) (faults []Fault) {
	for _, k := range Kinds(upTo) {
		faults = append(faults, Of(k))
	}
	return faults
}
