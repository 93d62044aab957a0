package invariant

import "fmt"

// CloneSetPromises are what a controller of CloneSets (apps.kruise.io) owes its user, about
// one CloneSet.
type CloneSetPromises struct {
	// Always must hold at every moment.
	Always []Invariant
	// Ends must hold once the world has come to rest. It judges by what Always has
	// followed from the beginning of the run, so it means nothing without them.
	Ends Invariant
}

// CloneSet are the promises about the CloneSet of a name, and about one that is made under
// that name later. They follow a run from one moment to the next and so belong to that run
// and to one goroutine: make them in the story, before the CloneSet.
//
// Its controller is whoever was started and has written the CloneSet, or a pod or a
// revision that it controls: not the kubelet, and not a controller of hooks. One leader at a
// time is taken for granted.
//
// What is judged are the controller's own writes, each against every spec that was in force
// since the revision of the CloneSet that the controller's cache had when its reconcile
// began: it is right if any of them makes it right. Number and state of pods are the
// truth, and so the controller's own writes always count, however late their events are
// and whatever became of the answers. What others have done to pods counts for it as long
// as its cache of pods, at that moment, could not show it: a pod that it saw available is
// available to it, unless it was the one who took it out of service.
//
//   - Creation: with the new pod there may be replicas and maxSurge pods that a controller
//     made or adopted and that neither ended nor are being deleted. Those that wait for
//     their preDelete hook count, unless the CloneSet excludes them. That more are there
//     because replicas were lowered is nobody's fault.
//   - Availability: a write after which a pod is not available that was (by its deletion, its
//     state, its conditions or another image) wants replicas less maxUnavailable others
//     that are. A pod becomes available by time alone too; what counts for the one written
//     to is the moment at which its reconcile began.
//   - Hooks: no deletion of a pod, whatever its phase, while it bears a handler of preDelete;
//     no beginning of an update in place while it bears one of inPlaceUpdate; no state Normal
//     without all of preNormal, for a pod that is PreparingNormal or never was Normal. Handlers
//     are read from the pod as it was when the write took effect: a controller can name the
//     revision that it has seen, and so needs no excuse.
//   - Image: none is changed while InPlaceUpdateReady is True on a pod with that gate, and
//     it becomes True again only when no container runs another image than the pod's spec
//     has: each has begun anew since, or the image is that of its beginning again. A container
//     that crashed and was restarted from the old spec has not: its status names an image that
//     the spec had before.
//   - Partition: no pod is updated in place to a revision when replicas less partition pods
//     have it. That more have it because they were made so, or because the partition was
//     raised, is nobody's fault.
//   - PreparingDelete: with markPodNotReady in preDelete or inPlaceUpdate, a pod that is
//     PreparingDelete does not change to another state, as with Kruise.
//   - Resize: an update in place that changes nothing but cpu and memory, of containers whose
//     resizePolicy asks for no restart, leaves InPlaceUpdateReady True.
//
// At the end nothing may be left that the controller should have tidied away, every pod is
// available and as many are updated as are to be, but for what waits for somebody else:
// hooks that never come, pods without a node or with containers that are not ready, and
// what must not go on while those are not available. See ended.
func CloneSet(owner Owner) CloneSetPromises {
	f := newSetFollower(owner)
	always := func(p setPromise) Invariant {
		return Invariant{Name: fmt.Sprintf(p.sentence(), owner), Check: func(v View) error {
			f.follow(v)
			return f.broken[p]
		}}
	}
	c := CloneSetPromises{Ends: Invariant{
		Name: fmt.Sprintf("%s has come to its end, or waits for others", owner),
		Check: func(v View) error {
			f.follow(v)
			return f.ended(v)
		},
	}}
	for p := range numSetPromises {
		c.Always = append(c.Always, always(p))
	}
	return c
}

// setPromise numbers the promises that must always hold.
type setPromise int

const (
	withinSurge setPromise = iota
	keepsAvailable
	asksPreDelete
	asksInPlaceUpdate
	asksPreNormal
	imageBehindGate
	beginsAnew
	withinPartition
	keepsPreparing
	resizesInTraffic
	numSetPromises
)

func (p setPromise) sentence() string {
	return [...]string{
		withinSurge:       "no pod of %s is made beyond replicas and maxSurge",
		keepsAvailable:    "no available pod of %s is taken out of service when no more than replicas less maxUnavailable are available",
		asksPreDelete:     "no pod of %s is deleted that its preDelete hook holds",
		asksInPlaceUpdate: "no pod of %s is updated in place that its inPlaceUpdate hook holds",
		asksPreNormal:     "no pod of %s becomes Normal before its preNormal hook is complete",
		imageBehindGate:   "no image of a pod of %s is changed while it takes traffic",
		beginsAnew:        "no pod of %s takes traffic again before its changed containers have begun anew",
		withinPartition:   "no pod of %s is updated in place beyond the partition",
		keepsPreparing:    "no pod of %s returns from PreparingDelete while its hooks mark pods not ready",
		resizesInTraffic:  "no pod of %s is taken out of traffic for a resize without a restart",
	}[p]
}
