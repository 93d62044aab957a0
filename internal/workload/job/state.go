package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// State is what a plan is made from. Objects are shared and not changed.
type State struct {
	// Job as the cache shows it, with the API's defaults.
	Job *batchv1.Job
	// Pods are all that the Job controls, sorted by name.
	Pods []*corev1.Pod
	// Orphans are pods of the namespace without a controller that may match.
	Orphans []*corev1.Pod

	Past   Past
	Limits Limits
}

// Past is what one process remembers of a Job. The zero value is that of a process
// that has just begun.
type Past struct {
	// Failures is how many pods failed since the last that succeeded, LastFailure
	// when the last of them did.
	Failures    int
	LastFailure time.Time
	// Seen are the finished pods among these that still have our finalizer. Seeded
	// says that what is older was read from the pods that there are.
	Seen   map[types.UID]bool
	Seeded bool
	// Began is when the first plan was made: the Job's start, until its status says so.
	Began time.Time
	// StatusWrites counts status writes, StatusAt is when the last one was.
	StatusWrites int
	StatusAt     time.Time
	// Batch is how many pods may be made in one plan: it doubles while that works,
	// and falls back to one when it fails.
	Batch int
	// Taken are names of pods that somebody else's pods bear.
	Taken map[string]bool
}

// Limits are the numbers that upstream fixes and tests want to change.
type Limits struct {
	// Backoff is waited after the first failure, twice as long after each
	// further one, BackoffMax at most (10 s and 10 min, as upstream).
	Backoff, BackoffMax time.Duration
	// Uncounted is how many pods uncountedTerminatedPods holds at most (500).
	Uncounted int
	// Pods is how many pods one plan makes, removes and lets go at most, of each. It
	// is what one Job may hold a worker for while others wait (200).
	Pods int
	// StatusPause is the time between two status writes that tell of nothing but
	// numbers of active, ready and terminating pods (1 s), and CountPause between
	// two that count pods, once a Job has used up its writes (250 ms).
	StatusPause, CountPause time.Duration
}

// DefaultLimits are what the controller uses unless told otherwise.
var DefaultLimits = Limits{
	Backoff: 10 * time.Second, BackoffMax: 10 * time.Minute,
	Uncounted: 500, Pods: 200,
	StatusPause: time.Second, CountPause: 250 * time.Millisecond,
}

// Decision is what to do now.
type Decision struct {
	workload.Decision
	// Status is written first, if it is not nil. If the API rejects it because the Job has
	// changed, nothing else is carried out.
	Status *batchv1.JobStatus
	// Past is what the process remembers until the next plan.
	Past Past
	// Tally is for metrics.
	Tally Tally
}

// Tally are the numbers of a decision that metrics tell.
type Tally struct {
	// Created, Removed and Released are pods in Actions; Surplus are those that are
	// removed because there are more than the Job asks for.
	Created, Removed, Released, Surplus int
	// Handled are new failures by the action of the pod failure policy: those that the
	// status records, and ignored ones that are let go, with or without a status.
	Handled map[batchv1.PodFailurePolicyAction]int
	// Open says that pods have finished and are not counted yet, or that the Job's end is
	// decided: somebody waits for the next plan.
	Open bool
	// Replaces says that pods are made after others failed or began to terminate.
	Replaces bool
	// Ended is the condition that ends the Job with this status, "" if none does.
	Ended batchv1.JobConditionType
	Why   string
}
