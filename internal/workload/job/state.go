package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// State is the input of a plan. Its objects are shared and must not be changed.
type State struct {
	// Job as the cache shows it, with the API's defaults.
	Job *batchv1.Job
	// Pods are all pods that the Job controls, sorted by name.
	Pods []*corev1.Pod
	// Orphans are pods of the namespace that have no controller and may match the selector.
	Orphans []*corev1.Pod

	Past   Past
	Limits Limits
}

// Past is what one process remembers of a Job. The zero value is that of a process that has just
// started.
type Past struct {
	// Failures is the number of pods that have failed since one succeeded, LastFailure the time
	// of the last failure.
	Failures    int
	LastFailure time.Time
	// Seen are the finished pods that Failures takes into account and that still have the tracking
	// finalizer. Seeded: Failures also takes the pods into account that finished before the process
	// started, as far as they exist.
	Seen   map[types.UID]bool
	Seeded bool
	// Began is when this process first planned: the Job's start time until the status has one.
	Began time.Time
	// StatusWrites counts status writes, StatusAt is when the last one was.
	StatusWrites int
	StatusAt     time.Time
	// Batch limits how many pods one plan creates: 0 until a create was tried (the limit is 1), 1
	// after a create has failed, and twice as many after each plan whose creates succeed.
	Batch int
	// Taken are pod names that are in use by pods of others.
	Taken map[string]bool
}

// createFailed reports whether a create of the last plan that created pods has failed.
func (p *Past) createFailed() bool { return p.Batch == 1 }

// Limits are numbers that are constants upstream and that tests change.
type Limits struct {
	// Backoff is the pause after the first failure. It doubles with each further failure, up to
	// BackoffMax (10 s and 10 min, as upstream).
	Backoff, BackoffMax time.Duration
	// Uncounted is the maximal number of pods in uncountedTerminatedPods (500).
	Uncounted int
	// Pods is the maximal number of pods that one plan creates, deletes and releases, of each. It
	// bounds how long one Job occupies a worker (200).
	Pods int
	// StatusPause is the time between two status writes that change only the numbers of active,
	// ready and terminating pods (1 s), CountPause that between two writes that count pods, after
	// the Job has used up its free writes (250 ms).
	StatusPause, CountPause time.Duration
}

// DefaultLimits are the limits that the controller uses by default.
var DefaultLimits = Limits{
	Backoff: 10 * time.Second, BackoffMax: 10 * time.Minute,
	Uncounted: 500, Pods: 200,
	StatusPause: time.Second, CountPause: 250 * time.Millisecond,
}

// Decision is the decision for one Job: the writes, the status, and what the process remembers.
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

// Tally contains the numbers of a decision that the metrics report.
type Tally struct {
	// Created, Removed and Released are numbers of pods in Actions; Surplus is the number of those
	// that are removed because there are more than the Job wants.
	Created, Removed, Released, Surplus int
	// Handled counts new failures by the action of the pod failure policy: those that the status
	// records, and ignored ones that are released, with or without a status.
	Handled map[batchv1.PodFailurePolicyAction]int
	// Open: pods have finished and are not counted yet, or it is decided that the Job ends. Its user
	// waits for the next plan.
	Open bool
	// Replaces: pods are created after others failed or started to terminate.
	Replaces bool
	// Ended is the condition with which this status ends the Job, "" if it does not; Why is its
	// reason.
	Ended batchv1.JobConditionType
	Why   string
}
