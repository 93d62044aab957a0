package cloneset

import (
	"fmt"

	"github.com/rehearse-k8s/rehearse/invariant"
)

// Invariants returns the invariants of the CloneSet with the owner's name, and of a later CloneSet
// with the same name. They record what happens in one run and are not safe for concurrent use:
// create them in the test function, before the CloneSet is created.
//
// A controller of the CloneSet is each actor of the run that was started and has written the
// CloneSet, or a pod or a revision that the CloneSet controls: neither the kubelet nor a controller
// of hooks is one. Only one instance may be active at a time.
//
// Only the controller's own writes are checked. A write is checked against each spec in force since
// the revision of the CloneSet that the controller's cache had when its reconcile started: it is
// correct if any of these specs allows it. The number and state of pods are the actual ones, so the
// controller's own writes always count, however late their events are and whether or not it
// received the answers. What others do to a pod does not count until the controller's cache of pods
// could show it: a pod that the controller observed as available counts as available, unless the
// controller itself made it unavailable.
//
//   - Creation: including the new pod, at most replicas plus maxSurge active pods exist that a
//     controller created or adopted. Pods that wait for their preDelete hook count, unless the
//     CloneSet excludes them. It is no violation that more exist because replicas was lowered.
//   - Availability: a write that makes an available pod unavailable (by its deletion, state,
//     conditions or another image) requires that replicas minus maxUnavailable other pods are
//     available. Time alone makes a pod available too; for the written pod, the time is the
//     one at which the reconcile started.
//   - Hooks: a pod with a handler of preDelete is not deleted, whatever its phase; an update in
//     place does not start on a pod with a handler of inPlaceUpdate; a pod that is PreparingNormal,
//     or has never been Normal, does not become Normal without all handlers of preNormal. Handlers
//     are read from the pod as it was when the write took effect, because a controller can name
//     the revision that it observed.
//   - Image: no image changes while InPlaceUpdateReady is True on a pod with that gate. The
//     condition becomes True again only when no container runs another image than the pod's spec
//     names: each container has been restarted since, or the image is again the one it was
//     started with. A container that crashed and was restarted from the old spec is not updated:
//     its status names an image of an earlier spec.
//   - Partition: no pod is updated in place to a revision that replicas minus partition pods
//     already have. It is no violation that more have it because they were created with it, or
//     because the partition was raised.
//   - PreparingDelete: with markPodNotReady in preDelete or inPlaceUpdate, a pod that is
//     PreparingDelete does not change to another state, as with Kruise.
//   - Resize: an update in place that changes only cpu and memory, of containers whose
//     resizePolicy requires no restart, leaves InPlaceUpdateReady True.
//
// At quiescence the controller has removed everything that it had to remove, each pod is available,
// and as many pods are updated as the spec asks for, except what waits for others: hooks without an
// answer, pods without a node or with containers that are not ready, and what must not continue
// while those are unavailable. See follower.checkQuiescence.
func Invariants(owner invariant.Owner) invariant.Set {
	f := newFollower(owner)
	set := invariant.Set{AtQuiescence: invariant.Func(fmt.Sprintf("%s has converged, or waits for others", owner), func(v invariant.View) error {
		f.follow(v)
		return f.checkQuiescence(v)
	})}
	for id := range numInvariants {
		set.Always = append(set.Always, invariant.Func(fmt.Sprintf(id.sentence(), owner), func(v invariant.View) error {
			f.follow(v)
			return f.violations[id]
		}))
	}
	return set
}

// invariantID identifies an invariant that must always hold.
type invariantID int

const (
	withinSurge invariantID = iota
	keepsAvailable
	asksPreDelete
	asksInPlaceUpdate
	asksPreNormal
	imageBehindGate
	restartsContainers
	withinPartition
	keepsPreparing
	resizesInTraffic
	numInvariants
)

func (id invariantID) sentence() string {
	return [...]string{
		withinSurge:        "no pod of %s is created beyond replicas and maxSurge",
		keepsAvailable:     "no available pod of %s is taken out of service when no more than replicas minus maxUnavailable are available",
		asksPreDelete:      "no pod of %s is deleted while its preDelete hook blocks it",
		asksInPlaceUpdate:  "no pod of %s is updated in place while its inPlaceUpdate hook blocks it",
		asksPreNormal:      "no pod of %s becomes Normal before its preNormal hook is complete",
		imageBehindGate:    "no image of a pod of %s is changed while it takes traffic",
		restartsContainers: "no pod of %s takes traffic again before its changed containers have restarted",
		withinPartition:    "no pod of %s is updated in place beyond the partition",
		keepsPreparing:     "no pod of %s returns from PreparingDelete while its hooks mark pods not ready",
		resizesInTraffic:   "no pod of %s is taken out of traffic for a resize without a restart",
	}[id]
}
