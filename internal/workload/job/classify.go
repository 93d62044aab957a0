package job

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// census is what one pass over the pods finds.
type podClasses struct {
	active      []*corev1.Pod
	ready       int
	terminating int
	restarts    int // of pods that are pending or running
	tracked     int // pods with our finalizer
	// trackedRecorded are those of them that are recorded in uncountedTerminatedPods.
	trackedRecorded map[types.UID]bool

	// Of pods with our finalizer:
	newSucceeded, newFailed []*corev1.Pod // finished and not recorded; failures that count
	releasableIgnored       []*corev1.Pod // failures that do not, and may be let go
	releasable              []*corev1.Pod // recorded, or not to be recorded: may be let go
	// late are failed pods by index that are the last of it: they are let go once
	// another pod carries on the count of failures.
	lastFailed map[int]*corev1.Pod

	// For the record of failures: finished pods that we hold, and in a process that has
	// just begun all others too.
	wereSuccesses, wereFailures, wereTracked []*corev1.Pod

	failJob   string // the message of the pod failure policy
	succeeded int    // counted, recorded and new
	failed    int
	activeAt  numbers // indexes of active pods, noIndex among them
	endingAt  numbers // indexes of terminating pods
}

// survey makes the census.
func (p *plan) classify() {
	p.active = make([]*corev1.Pod, 0, len(p.Pods))
	if p.indexed() {
		p.activeAt = make(numbers, 0, len(p.Pods))
	}
	p.trackedRecorded = map[types.UID]bool{}
	var failed []*corev1.Pod // with our finalizer, not recorded
	for _, pod := range p.Pods {
		p.classifyPod(pod)
		held := hasFinalizer(pod)
		if held || !p.Past.Seeded {
			p.remember(pod, held)
		}
		if !held {
			continue
		}
		p.tracked++
		switch {
		case p.recordedSucceeded[pod.UID] || p.recordedFailed[pod.UID]:
			// What is recorded stays, whatever the pod says now (kubernetes #125410).
			// One that is active again is held until it is not.
			p.trackedRecorded[pod.UID] = true
			if !isActive(pod) || p.job.DeletionTimestamp != nil {
				p.releasable = append(p.releasable, pod)
			}
		case pod.Status.Phase == corev1.PodSucceeded:
			p.classifySucceeded(pod)
		case p.countsAsFailed(pod):
			failed = append(failed, pod)
		case p.mayReleaseUnfinished(pod):
			p.releasable = append(p.releasable, pod)
		}
	}
	slices.Sort(p.activeAt)
	slices.Sort(p.endingAt)
	p.classifyFailed(failed)
	p.sum()
}

// look takes in what does not depend on the finalizer.
func (p *plan) classifyPod(pod *corev1.Pod) {
	switch {
	case isActive(pod):
		p.active = append(p.active, pod)
		if isReady(pod) {
			p.ready++
		}
		if p.indexed() {
			p.activeAt = append(p.activeAt, completionIndex(pod))
		}
	case isTerminating(pod):
		p.terminating++
		if p.indexed() {
			p.endingAt = append(p.endingAt, completionIndex(pod))
		}
	}
	if pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodPending {
		p.restarts += restarts(pod)
	}
	if p.failJob == "" && p.job.Spec.PodFailurePolicy != nil && isFailed(p.job, pod) {
		p.failJob = handle(p.job.Spec.PodFailurePolicy, pod).failJob
	}
}

// remember takes in a pod for the record of failures.
func (p *plan) remember(pod *corev1.Pod, held bool) {
	switch {
	case pod.Status.Phase == corev1.PodSucceeded:
		p.wereSuccesses = append(p.wereSuccesses, pod)
	case pod.Status.Phase == corev1.PodFailed, held && isFailed(p.job, pod):
		p.wereFailures = append(p.wereFailures, pod)
	default:
		return
	}
	if held {
		p.wereTracked = append(p.wereTracked, pod)
	}
}

// classifySucceeded takes in a succeeded pod with our finalizer. The record of an Indexed
// Job is the index.
func (p *plan) classifySucceeded(pod *corev1.Pod) {
	if !p.indexed() {
		p.newSucceeded = append(p.newSucceeded, pod)
		return
	}
	i := completionIndex(pod)
	switch {
	case !p.isIndex(i), p.failedNow.Has(i): // an index that has failed stays so
		p.releasable = append(p.releasable, pod)
	case p.completed.Has(i):
		p.releasable = append(p.releasable, pod)
	default:
		p.newSucceeded = append(p.newSucceeded, pod)
		p.succeededNow = p.succeededNow.With(Span{i, i})
	}
}

// countsAsFailed: it has failed, or the Job has and it did not finish in time.
func (p *plan) countsAsFailed(pod *corev1.Pod) bool {
	return isFailed(p.job, pod) || p.failureTarget != nil && !isActive(pod)
}

// mayReleaseUnfinished: a Job that is being deleted holds nobody, and one that has
// succeeded does not hold those that it removes.
func (p *plan) mayReleaseUnfinished(pod *corev1.Pod) bool {
	return p.job.DeletionTimestamp != nil || p.successMet != nil && isTerminating(pod)
}

// classifyFailed sorts out failed pods with our finalizer that are not recorded. An index
// fails by itself, not with its Job.
func (p *plan) classifyFailed(pods []*corev1.Pod) {
	if p.perIndex() {
		for _, pod := range pods {
			if p.failureTarget != nil && pod.DeletionTimestamp != nil {
				continue // it goes because the Job has failed
			}
			if i := completionIndex(pod); p.isIndex(i) && !p.completed.Has(i) && p.failsIndex(pod) && !p.succeededNow.Has(i) {
				p.failedNow = p.failedNow.With(Span{i, i})
			}
		}
		p.findLastFailed(pods)
	}
	for _, pod := range pods {
		switch {
		case p.indexed() && !p.isIndex(completionIndex(pod)):
			p.releasable = append(p.releasable, pod)
		case !handle(p.job.Spec.PodFailurePolicy, pod).counts():
			if !p.isLastFailed(pod) {
				p.releasableIgnored = append(p.releasableIgnored, pod)
			}
		default:
			p.newFailed = append(p.newFailed, pod)
		}
	}
}

// failsIndex: the policy says so, or the index has failed too often.
func (p *plan) failsIndex(pod *corev1.Pod) bool {
	if !isFailed(p.job, pod) {
		return false
	}
	h := handle(p.job.Spec.PodFailurePolicy, pod)
	counted, _ := indexFailures(pod)
	return h.action == batchv1.PodFailurePolicyActionFailIndex || h.counts() && counted >= int(*p.job.Spec.BackoffLimitPerIndex)
}

// findLastFailed finds for each index that is to be tried again its last failed pod.
func (p *plan) findLastFailed(failed []*corev1.Pod) {
	p.lastFailed = map[int]*corev1.Pod{}
	for _, pod := range failed {
		i := completionIndex(pod)
		if !p.isIndex(i) || p.succeededNow.Has(i) || p.failedNow.Has(i) || p.activeAt.has(i) {
			continue
		}
		if last := p.lastFailed[i]; last == nil || failedLater(pod, last) {
			p.lastFailed[i] = pod
		}
	}
}

// failedLater compares failed pods of one index.
func failedLater(pod, than *corev1.Pod) bool {
	a, b := failuresOf(pod), failuresOf(than)
	return a > b || a == b && finishedAt(pod).After(finishedAt(than))
}

func failuresOf(pod *corev1.Pod) int {
	counted, ignored := indexFailures(pod)
	return counted + ignored
}

// isLastFailed: the pod is the last of its index and somebody has yet to carry its count on.
// When the Job ends, nobody will.
func (p *plan) isLastFailed(pod *corev1.Pod) bool {
	if p.ending() || p.job.DeletionTimestamp != nil {
		return false
	}
	last := p.lastFailed[completionIndex(pod)]
	return last != nil && last.UID == pod.UID
}

func (p *plan) isIndex(i int) bool { return i != noIndex && i < p.completions() }

// sum adds up what the Job has counted and recorded, and what is new.
func (p *plan) sum() {
	s, u := &p.job.Status, ptr.Deref(p.job.Status.UncountedTerminatedPods, batchv1.UncountedTerminatedPods{})
	p.failed = int(s.Failed) + len(u.Failed) + len(p.newFailed)
	p.succeeded = int(s.Succeeded) + len(u.Succeeded) + len(p.newSucceeded)
	if p.indexed() {
		p.succeeded = p.succeededNow.Len()
	}
}
