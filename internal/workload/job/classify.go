package job

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// podClasses is the result of one pass over the pods.
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
	releasableIgnored       []*corev1.Pod // ignored failures, which may be released
	releasable              []*corev1.Pod // recorded, or need not be: may be released
	// lastFailed is the last failed pod of each index that will be retried. It is released once
	// another pod of the index carries the number of failures.
	lastFailed map[int]*corev1.Pod

	// For Past: finished pods with the tracking finalizer and, in a process that has just started,
	// all other finished pods.
	wereSuccesses, wereFailures, wereTracked []*corev1.Pod

	failJob   string // the message of the pod failure policy
	succeeded int    // counted, recorded and new
	failed    int
	activeAt  numbers // indexes of active pods, noIndex among them
	endingAt  numbers // indexes of terminating pods
}

// classify computes the podClasses.
func (p *plan) classify() {
	p.active = make([]*corev1.Pod, 0, len(p.Pods))
	if p.indexed() {
		p.activeAt = make(numbers, 0, len(p.Pods))
	}
	p.trackedRecorded = map[types.UID]bool{}
	var failed []*corev1.Pod // with our finalizer, not recorded
	for _, pod := range p.Pods {
		p.classifyPod(pod)
		tracked := hasFinalizer(pod)
		if tracked || !p.Past.Seeded {
			p.remember(pod, tracked)
		}
		if !tracked {
			continue
		}
		p.tracked++
		switch {
		case p.recordedSucceeded[pod.UID] || p.recordedFailed[pod.UID]:
			// A record stays, whatever the pod's phase is now (kubernetes #125410). A pod that is
			// active again keeps the finalizer until it is not.
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

// classifyPod reads what does not depend on the finalizer.
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
		p.restarts += restartsOf(pod)
	}
	if p.failJob == "" && p.job.Spec.PodFailurePolicy != nil && isFailed(p.job, pod) {
		p.failJob = handle(p.job.Spec.PodFailurePolicy, pod).failJob
	}
}

// remember reads a pod for Past.
func (p *plan) remember(pod *corev1.Pod, tracked bool) {
	switch {
	case pod.Status.Phase == corev1.PodSucceeded:
		p.wereSuccesses = append(p.wereSuccesses, pod)
	case pod.Status.Phase == corev1.PodFailed, tracked && isFailed(p.job, pod):
		p.wereFailures = append(p.wereFailures, pod)
	default:
		return
	}
	if tracked {
		p.wereTracked = append(p.wereTracked, pod)
	}
}

// classifySucceeded classifies a succeeded pod with the tracking finalizer. An Indexed Job records the
// index instead of the pod.
func (p *plan) classifySucceeded(pod *corev1.Pod) {
	if !p.indexed() {
		p.newSucceeded = append(p.newSucceeded, pod)
		return
	}
	i := completionIndex(pod)
	switch {
	case !p.isIndex(i), p.failedNow.Has(i): // a failed index stays failed
		p.releasable = append(p.releasable, pod)
	case p.completed.Has(i):
		p.releasable = append(p.releasable, pod)
	default:
		p.newSucceeded = append(p.newSucceeded, pod)
		p.succeededNow = p.succeededNow.With(Span{i, i})
	}
}

// countsAsFailed reports whether a pod has failed, or its Job has failed while the pod was active.
func (p *plan) countsAsFailed(pod *corev1.Pod) bool {
	return isFailed(p.job, pod) || p.failureTarget != nil && !isActive(pod)
}

// mayReleaseUnfinished reports whether a pod may be released before it has finished: a Job that is
// being deleted releases all pods, a Job that has succeeded those that it deletes.
func (p *plan) mayReleaseUnfinished(pod *corev1.Pod) bool {
	return p.job.DeletionTimestamp != nil || p.successMet != nil && isTerminating(pod)
}

// classifyFailed classifies failed pods with the tracking finalizer that are not recorded. An index
// fails by itself, not together with its Job.
func (p *plan) classifyFailed(pods []*corev1.Pod) {
	if p.perIndex() {
		for _, pod := range pods {
			if p.failureTarget != nil && pod.DeletionTimestamp != nil {
				continue // it is deleted because the Job has failed
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

// failsIndex reports whether a pod fails its index: by the policy, or because the index has failed too
// often.
func (p *plan) failsIndex(pod *corev1.Pod) bool {
	if !isFailed(p.job, pod) {
		return false
	}
	h := handle(p.job.Spec.PodFailurePolicy, pod)
	counted, _ := indexFailures(pod)
	return h.action == batchv1.PodFailurePolicyActionFailIndex || h.counts() && counted >= int(*p.job.Spec.BackoffLimitPerIndex)
}

// findLastFailed finds the last failed pod of each index that will be retried.
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

// failedLater reports whether one failed pod of an index failed later than another.
func failedLater(pod, than *corev1.Pod) bool {
	a, b := failuresOf(pod), failuresOf(than)
	return a > b || a == b && finishedAt(pod).After(finishedAt(than))
}

func failuresOf(pod *corev1.Pod) int {
	counted, ignored := indexFailures(pod)
	return counted + ignored
}

// isLastFailed reports whether a pod is the last failed pod of its index and its number of failures has
// yet to be copied to a successor. A Job that ends creates no successors.
func (p *plan) isLastFailed(pod *corev1.Pod) bool {
	if p.ending() || p.job.DeletionTimestamp != nil {
		return false
	}
	last := p.lastFailed[completionIndex(pod)]
	return last != nil && last.UID == pod.UID
}

func (p *plan) isIndex(i int) bool { return i != noIndex && i < p.completions() }

// sum adds the pods that the Job has counted, those it has recorded, and the new ones.
func (p *plan) sum() {
	s, u := &p.job.Status, ptr.Deref(p.job.Status.UncountedTerminatedPods, batchv1.UncountedTerminatedPods{})
	p.failed = int(s.Failed) + len(u.Failed) + len(p.newFailed)
	p.succeeded = int(s.Succeeded) + len(u.Succeeded) + len(p.newSucceeded)
	if p.indexed() {
		p.succeeded = p.succeededNow.Len()
	}
}
