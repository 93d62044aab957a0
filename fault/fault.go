package fault

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rehearse-k8s/rehearse/history"
)

// Level says whether a controller that fails under a fault has a bug.
type Level int

const (
	// Legal faults are within the API's contract: a controller that fails under one has a bug.
	Legal Level = iota
	// Seen faults violate the contract, but released servers have shown them
	// (etcd tests/robustness/README.md lists the issues).
	Seen
	// Adversarial faults have not been observed. They show how much a controller tolerates.
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

// The kinds. "The nth" counts the requests or events that match the other fields of the fault.
const (
	// KindLag holds a watch stream from the nth event on, and later delivers the held events in
	// order. Other streams continue, so events of different resources are reordered.
	KindLag Kind = "lag"
	// KindRelist holds a stream from the nth event on. Then the stream ends, the held events are
	// lost, and the next watch from a revision is answered 410. So the informer lists again: it
	// observes coalesced changes, and deletes as tombstones.
	KindRelist Kind = "relist"
	// KindDisconnect ends the stream at the nth event. The client receives the event when it
	// watches again from the last revision that it observed.
	KindDisconnect Kind = "disconnect"
	// KindDropBookmark drops the nth progress bookmark, never the bookmark that ends the initial
	// events.
	KindDropBookmark Kind = "drop-bookmark"

	// KindConflict lets another user write the object right before the nth write. The API answers 409 to a
	// write that carries a resourceVersion. An update of the whole object without one takes effect, and may
	// remove what the other user wrote. The kind acts on no other write.
	KindConflict Kind = "conflict"
	// KindThrottle answers the nth request 429 with Retry-After, without effect.
	KindThrottle Kind = "throttle"
	// KindError answers the nth request 500, without effect.
	KindError Kind = "error"
	// KindQuota answers the nth create 403, as a ResourceQuota does that has no room; KindDeny answers the
	// nth write 403, as an admission webhook does that denies it. Both are without effect.
	KindQuota Kind = "quota"
	KindDeny  Kind = "deny"
	// KindTimeout discards the nth request: no effect, and no answer until the client times out.
	KindTimeout Kind = "timeout"
	// KindOutage makes the API unavailable to the actor from its nth request on: all its watches end, and every request is
	// answered 503 without Retry-After, until the hold ends. Without a limit of the hold that is when nothing else can
	// happen: then the actor has lost all its watches at once, and little more.
	KindOutage Kind = "outage"
	// KindPartition discards the writes of the actor from its nth write on, until the hold ends: they have no effect, and
	// no answer until the client times out. Reads work, and watches continue.
	KindPartition Kind = "partition"
	// KindStaleList answers the nth list that permits it (resourceVersion=0, or not older than a revision) from an older
	// state: without the last write of the resource, or without as many as Writes says, but not older than the list
	// permits. The watch continues from there. A watch that sends the initial objects fails at once, because the list by which
	// client-go replaces it permits an older state, and that list is stale.
	KindStaleList Kind = "stale-list"
	// KindOtherServer connects the actor to another API server from its nth request on: all its watches end. Until the
	// hold ends, the watch caches of that server are behind: new watches deliver nothing, and lists that permit an older state are
	// answered from the state at which the hold began. Everything else is current.
	KindOtherServer Kind = "other-server"
	// KindExpiredPage answers the nth request for a further page of a list 410: the state that the first page came from
	// is no longer available.
	KindExpiredPage Kind = "expired-page"
	// KindLostAnswer executes the nth write and drops its answer.
	KindLostAnswer Kind = "lost-answer"
	// KindErrorAfter executes the nth write and answers it 500 without Retry-After, if it succeeds: the client receives
	// an error at once, and cannot know whether the write took effect.
	KindErrorAfter Kind = "error-after"
	// KindLateAnswer executes the nth write and holds its answer, so the watch event may be
	// delivered first.
	KindLateAnswer Kind = "late-answer"
	// KindLateRequest holds the nth request before it is executed.
	KindLateRequest Kind = "late-request"

	// KindCrashBefore terminates the actor at its nth write, before the write is executed;
	// KindCrashAfter terminates it afterwards. The actor restarts with empty caches.
	KindCrashBefore Kind = "crash-before"
	// KindCrash as a pattern stands for KindCrashBefore and KindCrashAfter; as a fault it is
	// KindCrashBefore.
	KindCrash      Kind = "crash"
	KindCrashAfter Kind = "crash-after"
	// KindOverlap starts a second instance of the actor after its nth write; the first one
	// continues for a while, as in a rollout without leader election. It is tried only where a test or a
	// scenario allows it, because leader election prevents it.
	KindOverlap Kind = "overlap"
	// KindDeposedWrite terminates the actor while its nth write is on its way, and starts a successor at once; the
	// write takes effect later. Leader election permits it: the lease does not stop requests that were sent.
	KindDeposedWrite Kind = "deposed-write"
	// KindPause holds all requests and events of the actor from its nth write on. If the actor
	// is the leader, another replica may become leader before it continues.
	KindPause Kind = "pause"

	// Interference by another user, right after the nth write that matches: the user deletes the
	// object of the write, evicts it (a pod), adds a label, or adds a finalizer and removes it
	// later.
	KindDelete    Kind = "delete"
	KindEvict     Kind = "evict"
	KindLabel     Kind = "label"
	KindFinalizer Kind = "finalizer" // adds InterferenceFinalizer and removes it later
	// KindRecreate is interference that deletes the object, and creates it again once it is gone: with the same name,
	// another UID, and the content that the user wrote.
	KindRecreate Kind = "recreate"
	// KindEdit is interference that edits the object twice in quick succession, so that it ends as it began:
	// spec.replicas - 1 and back, if the object has replicas, otherwise an annotation.
	KindEdit Kind = "edit"

	// KindLoseEvent drops the nth event of a stream (etcd #17529, #18089, #19179); KindRepeatEvent
	// delivers it twice (etcd #17247).
	KindLoseEvent   Kind = "lose-event"
	KindRepeatEvent Kind = "repeat-event"

	// KindTimeTravel terminates the actor at its nth write. Its next instance lists from a server
	// with an older state (etcd #15271).
	KindTimeTravel Kind = "time-travel"
)

// InterferenceKey is the annotation that KindConflict and the label that KindLabel writes.
const InterferenceKey = "rehearse-k8s.github.io/touched"

// InterferenceFinalizer is the finalizer of another owner that KindFinalizer adds.
const InterferenceFinalizer = "rehearse-k8s.github.io/somebody-else"

// Class is the kind of thing that a fault acts on.
type Class int

const (
	// Event faults act on watch events.
	Event Class = iota
	// Call faults act on requests.
	Call
	// Process faults act on an actor, at one of its writes.
	Process
	// Interference faults act on an object, after a write to it, or to another object (Fault.Target).
	Interference
)

type trait struct {
	kind  Kind
	level Level
	class Class
	holds bool // For and Writes apply
	// source is the documentation, upstream code or issue that shows that Kubernetes does this.
	source string
}

// traits lists all kinds in the order in which a search tries them: first those that find failures
// most often.
var traits = []trait{
	{KindLag, Legal, Event, true, "etcd's API guarantees: the delay of a watch has no bound, and streams are independent"},
	{KindCrashAfter, Legal, Process, true, "a process can end at any time"},
	{KindLostAnswer, Legal, Call, false, "etcd's API guarantees: the outcome of a request without an answer is unknown; kube-apiserver answers 504 although a write may commit later (apiserver pkg/endpoints/handlers/finisher)"},
	{KindRelist, Legal, Event, true, "API Concepts, \"410 Gone responses\": history is kept for a limited time; kube-apiserver ends the watch and answers the next one with an ERROR event (apiserver pkg/storage/cacher)"},
	{KindCrashBefore, Legal, Process, true, "a process can end at any time"},
	{KindCrash, Legal, Process, true, "a process can end at any time"},
	{KindConflict, Legal, Call, false, "API Concepts, \"Updates to existing resources\": a write with an old resourceVersion is answered 409 after another client has written the object, one without it is not (apiserver pkg/registry/generic/registry/store.go)"},
	{KindLateAnswer, Legal, Call, true, "the network delays an answer without a bound; the watch event of the write does not wait for it"},
	{KindLateRequest, Legal, Call, true, "the network, the queues of priority and fairness and the handler (up to 34s) delay a request"},
	{KindDelete, Legal, Interference, false, "any user with the right to delete"},
	{KindErrorAfter, Legal, Call, false, "etcd gives up waiting for a proposal that still commits, and kube-apiserver answers 500 \"etcdserver: request timed out\" (etcd server/etcdserver/v3_server.go)"},
	{KindRecreate, Legal, Interference, false, "any user with the right to delete and create; an informer may show both as one update with another UID (client-go tools/cache/shared_informer.go)"},
	{KindEdit, Legal, Interference, false, "any user with the right to patch; a watch delivers each edit, a list only the last one (API Concepts, \"Efficient detection of changes\")"},
	{KindError, Legal, Call, false, "kube-apiserver answers 500 to a request that had no effect, for example if a webhook with failurePolicy Fail does not answer"},
	{KindQuota, Legal, Call, false, "ResourceQuota: a create over the quota is answered 403 (apiserver pkg/admission/plugin/resourcequota)"},
	{KindDeny, Legal, Call, false, "admission webhooks and policies may deny any write (apiserver pkg/admission/plugin/webhook)"},
	{KindTimeout, Legal, Call, false, "the network loses a request, or an overloaded server does not answer it"},
	{KindPause, Legal, Process, true, "a process can be stopped and continued: CPU limits, virtual machines, SIGSTOP"},
	{KindOutage, Legal, Call, true, "a restart or an upgrade of the API server ends all watches, and a load balancer answers 503 while no server is ready (apiserver pkg/server/filters/waitgroup.go); one process has one connection (client-go transport/cache.go)"},
	{KindPartition, Legal, Call, true, "the network or an overloaded server loses requests, and each request on its own"},
	{KindStaleList, Legal, Call, false, "API Concepts, resourceVersion=\"0\": any age; client-go lists so if a watch that sends the initial objects fails (client-go tools/cache/reflector.go, KEP-3157; kubernetes #59848)"},
	{KindOtherServer, Legal, Call, true, "each kube-apiserver has watch caches of its own, and a load balancer connects a client to any of them (apiserver pkg/storage/cacher)"},
	{KindThrottle, Legal, Call, true, "API Priority and Fairness answers 429 with Retry-After (apiserver pkg/server/filters/priority-and-fairness.go)"},
	{KindDisconnect, Legal, Event, false, "kube-apiserver ends a watch at any time without an error: timeout, slow reader, restart (apiserver pkg/storage/cacher/cache_watcher.go)"},
	{KindDropBookmark, Legal, Event, false, "API Concepts, \"Watch bookmarks\": a client may not assume that bookmarks are sent (KEP-956)"},
	{KindExpiredPage, Legal, Call, false, "API Concepts, \"Retrieving large results sets in chunks\": a continue token expires, 410 (apiserver pkg/storage/etcd3/errors.go)"},
	{KindOverlap, Legal, Process, true, "a Deployment's rolling update runs two instances of a controller without leader election; with leader election see deposed-write"},
	{KindDeposedWrite, Legal, Process, true, "client-go tools/leaderelection: no fencing, so a write that a leader sent before it lost its lease may take effect after its successor has started"},
	{KindEvict, Legal, Interference, false, "the Eviction API, for any user with the right"},
	{KindLabel, Legal, Interference, false, "any user with the right to patch"},
	{KindFinalizer, Legal, Interference, true, "any user with the right to patch; garbage collection and other controllers add finalizers"},
	{KindLoseEvent, Seen, Event, false, "etcd #17529, #18089, #19179; kubernetes #123072"},
	{KindRepeatEvent, Seen, Event, false, "etcd #17247, #15274"},
	{KindTimeTravel, Adversarial, Process, true, "etcd #15271; kubernetes #59848"},
}

func traitOf(k Kind) (trait, bool) {
	for _, t := range traits {
		if t.kind == k {
			return t, true
		}
	}
	return trait{}, false
}

// Kinds returns all kinds up to a level, first those that find failures most often, without
// KindCrash, which stands for two other kinds.
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

// Source is the documentation, the upstream code or the issue that shows that Kubernetes does this.
func (k Kind) Source() string {
	t, _ := traitOf(k)
	return t.source
}

// IsDelay reports whether a fault of this kind does nothing but delay an event or a request. A run records such a fault when the delay is over, so a run that a
// violation ends earlier contains no step with it.
func (k Kind) IsDelay() bool { return k == KindLag || k == KindRelist || k == KindLateRequest }

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
	// Target is the object that interference changes, as resource/namespace/name or resource/name; empty: the object
	// of the request. See [TargetOf].
	Target string
	// Nth is the number of the matching request or event, from 1. If it is 0, the search chooses
	// it.
	Nth int

	// For and Writes limit a hold: to a duration of the run's clock, or to a number of further
	// writes by any client (KindStaleList, which holds nothing: the number of writes that the list does not contain). If both are zero, the hold ends when nothing else can happen without
	// time passing; with Writes, it also ends then.
	For    time.Duration
	Writes int
	// Until ends a hold when a watch of this resource has delivered an event to the same actor that
	// is newer than the held item, or that has UntilRevision or a later one. It defines an order
	// between the events of two resources.
	Until         string
	UntilRevision int64
}

// Lag returns the pattern of delayed events of a resource, for any actor.
func Lag(resource string) Fault { return Fault{Kind: KindLag, Resource: resource} }

// Relist returns the pattern of an expired watch (410) and a new list.
func Relist(resource string) Fault { return Fault{Kind: KindRelist, Resource: resource} }

// Disconnect returns the pattern of a watch that ends and is resumed.
func Disconnect(resource string) Fault { return Fault{Kind: KindDisconnect, Resource: resource} }

// Conflict returns the pattern of writes of a resource that compete with those of another user and are answered 409.
func Conflict(resource string) Fault { return Fault{Kind: KindConflict, Resource: resource} }

// LostAnswer returns the pattern of a write that is executed and whose answer is lost.
func LostAnswer(actor string) Fault { return Fault{Kind: KindLostAnswer, Actor: actor} }

// Crash returns the pattern of an actor that crashes right before or right after one of its writes
// and restarts.
func Crash(actor string) Fault { return Fault{Kind: KindCrash, Actor: actor} }

// Pause returns the pattern of an actor that is paused for a while.
func Pause(actor string) Fault { return Fault{Kind: KindPause, Actor: actor} }

// TargetOf returns the Target that names an object.
func TargetOf(o history.Object) string { return o.Resource + "/" + o.Key() }

// TargetObject returns the object that Target names; ok is false if it names none.
func (f Fault) TargetObject() (o history.Object, ok bool) {
	parts := strings.Split(f.Target, "/")
	if slices.Contains(parts, "") {
		return o, false
	}
	switch len(parts) {
	case 2:
		return history.Object{Resource: parts[0], Name: parts[1]}, true
	case 3:
		return history.Object{Resource: parts[0], Namespace: parts[1], Name: parts[2]}, true
	}
	return o, false
}

// Of returns the pattern of any fault of a kind.
func Of(kind Kind) Fault { return Fault{Kind: kind} }

// Any returns the patterns of all faults up to a level that apply to any controller. KindOverlap is not among
// them: only a controller without leader election runs twice at once.
func Any(upTo Level) (faults []Fault) {
	for _, k := range Kinds(upTo) {
		if k != KindOverlap {
			faults = append(faults, Of(k))
		}
	}
	return faults
}
