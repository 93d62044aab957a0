package job

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/rehearse-k8s/rehearse/invariant"
)

// trackingFinalizer is on each pod of a Job until the Job has counted the pod.
const trackingFinalizer = batchv1.JobTrackingFinalizer

// Invariants returns the invariants of the Job with the owner's name, and of a later Job with the
// same name. They record what happens in one run and are not safe for concurrent use: create them
// in the test function, before the Job is created.
//
// A pod is checked when a controller creates it, since that is when the controller decides. A pod
// that already exists when a user lowers parallelism is no violation. A creation is checked
//   - against each spec in force since the revision of the Job that the controller's cache had
//     when its reconcile started: it is correct if any of these specs allows it;
//   - against the actual pods: a controller must not forget a pod that it created, however late
//     the event arrives. Pods that are being deleted do not count, except for Jobs with
//     podReplacementPolicy Failed, where they count until they have finished. Pods that others
//     created do not count.
//
// Only one instance of the controller may be active at a time: two active instances may violate
// each of these invariants.
//
// Interference by others is tolerated where it makes several results correct. A pod that was
// already being deleted when it succeeded may count as failed, as succeeded or, if the controller
// deleted it, not at all. A pod that finished before it was deleted must be counted, even if the
// controller had removed its finalizer in order to delete it. A pod may be counted again if a user
// put the finalizer back after it was counted. Everything else must hold in spite of changed
// labels, additional finalizers, evictions and deletions.
func Invariants(owner invariant.Owner) invariant.Set {
	f := newFollower(owner)
	set := invariant.Set{AtQuiescence: invariant.Func(fmt.Sprintf("%s has finished, or waits for running pods", owner), func(v invariant.View) error {
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
	withinParallelism invariantID = iota
	withinCompletions
	onePodPerIndex
	adoptsFirst
	nothingAfterDecision
	countedOnce
	legalConditions
	numInvariants
)

func (id invariantID) sentence() string {
	return [...]string{
		withinParallelism:    "no pod of %s is created beyond its parallelism",
		withinCompletions:    "no pod of %s is created when enough have succeeded or run",
		onePodPerIndex:       "no second pod of %s is created for an index that has one or has succeeded",
		adoptsFirst:          "no pod of %s is created while its controller observes one that it may adopt",
		nothingAfterDecision: "no pod of %s is created after its success or failure is decided",
		countedOnce:          "no pod of %s is counted twice",
		legalConditions:      "the conditions of %s change in a legal order",
	}[id]
}
