package invariant

import "fmt"

// TrackingFinalizer is on every pod of a Job until it has been counted.
const TrackingFinalizer = "batch.kubernetes.io/job-tracking"

// JobPromises are what a controller of batch/v1 Jobs owes its user, about one Job.
type JobPromises struct {
	// Always must hold at every moment.
	Always []Invariant
	// Ends must hold once the world has come to rest. It judges by what Always has
	// followed from the beginning of the run, so it means nothing without them.
	Ends Invariant
}

// Job are the promises about the Job of a name, and about one that is made under that
// name later. They follow a run from one moment to the next and so belong to that run
// and to one goroutine: make them in the story, before the Job.
//
// Pods are judged when a controller makes one, since that is when it decides: a pod
// that is there already is not its fault when somebody lowers parallelism. It is
// judged against every spec in force since the revision of the Job that the
// controller's cache had when its reconcile began, and by the truth about pods: what it
// has made itself it must not forget, however late its events are. Pods that are being
// deleted have made room, but for Jobs with podReplacementPolicy Failed, where they must
// end first. Pods that somebody else made are not counted against it. One leader at a time is taken for granted: two
// instances that both work may break any of this.
//
// What somebody else does is set aside where it blurs what is right. A pod that was
// being deleted when it succeeded may count as failed, as success or, if the controller
// removed it, not at all; one that ended before it was deleted must be counted, even if the
// controller had taken its finalizer already in order to remove it. A pod whose finalizer somebody put back after it was counted
// may be counted again. Nothing else is: labels, foreign finalizers, evictions and
// deletions change no other promise.
func Job(owner Owner) JobPromises {
	f := newJobFollower(owner)
	always := func(p jobPromise) Invariant {
		return Invariant{Name: fmt.Sprintf(p.sentence(), owner), Check: func(v View) error {
			f.follow(v)
			return f.broken[p]
		}}
	}
	j := JobPromises{Ends: Invariant{
		Name: fmt.Sprintf("%s has come to its end, or waits for pods that run", owner),
		Check: func(v View) error {
			f.follow(v)
			return f.ended(v)
		},
	}}
	for p := range numJobPromises {
		j.Always = append(j.Always, always(p))
	}
	return j
}

// jobPromise numbers the promises that must always hold.
type jobPromise int

const (
	withinParallelism jobPromise = iota
	withinCompletions
	onePodPerIndex
	orphansFirst
	nothingAfterTheEnd
	countedOnce
	legalConditions
	numJobPromises
)

func (p jobPromise) sentence() string {
	return [...]string{
		withinParallelism:  "no pod of %s is made beyond its parallelism",
		withinCompletions:  "no pod of %s is made when enough have succeeded or run",
		onePodPerIndex:     "no second pod of %s is made for an index that has one or has succeeded",
		orphansFirst:       "no pod of %s is created while its controller sees one that it may adopt",
		nothingAfterTheEnd: "no pod of %s is made once its success or failure is decided",
		countedOnce:        "no pod of %s is counted twice",
		legalConditions:    "the conditions of %s come in their order",
	}[p]
}
