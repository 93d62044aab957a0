package job

import (
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// noIndex is the completion index of a pod that has no index or whose index cannot be parsed.
const noIndex = -1

// hasFinalizer reports whether the pod has the tracking finalizer: the Job has yet to count it.
func hasFinalizer(p *corev1.Pod) bool {
	return slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer)
}

func isFinished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func isActive(p *corev1.Pod) bool { return !isFinished(p) && p.DeletionTimestamp == nil }

func isTerminating(p *corev1.Pod) bool { return !isFinished(p) && p.DeletionTimestamp != nil }

func isReady(p *corev1.Pod) bool {
	c := podCondition(p, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

func podCondition(p *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == t {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// replacesOnlyFailed reports whether terminating pods count as failed, and are replaced, only after they have
// failed (podReplacementPolicy Failed, or any podFailurePolicy).
func replacesOnlyFailed(j *batchv1.Job) bool {
	return j.Spec.PodFailurePolicy != nil || j.Spec.PodReplacementPolicy != nil && *j.Spec.PodReplacementPolicy == batchv1.Failed
}

// isFailed reports whether a pod counts as a failure of its Job now.
func isFailed(j *batchv1.Job, p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed || isTerminating(p) && !replacesOnlyFailed(j)
}

// completionIndex returns the pod's index, noIndex if it has none.
func completionIndex(p *corev1.Pod) int {
	text, ok := p.Annotations[batchv1.JobCompletionIndexAnnotation]
	if !ok {
		return noIndex
	}
	if i, err := strconv.Atoi(text); err == nil && i >= 0 {
		return i
	}
	return noIndex
}

// indexFailures returns how often the index had failed before this pod: the failures that count and those that
// were ignored. Annotations that cannot be parsed are 0.
func indexFailures(p *corev1.Pod) (counted, ignored int) {
	return annotatedCount(p, batchv1.JobIndexFailureCountAnnotation), annotatedCount(p, batchv1.JobIndexIgnoredFailureCountAnnotation)
}

func annotatedCount(p *corev1.Pod, key string) int {
	text, ok := p.Annotations[key]
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return int(n)
}

// finishedAt returns when a pod finished: when the last of its containers and sidecars did; otherwise when it
// became unready, when its deletion was requested, or when it was created.
func finishedAt(p *corev1.Pod) time.Time {
	if t := containersFinishedAt(p); !t.IsZero() {
		return t
	}
	if c := podCondition(p, corev1.PodReady); c != nil && c.Status == corev1.ConditionFalse && !c.LastTransitionTime.IsZero() {
		return c.LastTransitionTime.Time
	}
	if p.DeletionTimestamp != nil {
		grace := int64(0)
		if p.DeletionGracePeriodSeconds != nil {
			grace = *p.DeletionGracePeriodSeconds
		}
		return p.DeletionTimestamp.Add(-time.Duration(grace) * time.Second)
	}
	return p.CreationTimestamp.Time
}

// containersFinishedAt returns when the last container or sidecar finished, zero unless all have finished.
func containersFinishedAt(p *corev1.Pod) (last time.Time) {
	finished := func(s *corev1.ContainerStatus) bool {
		if s.State.Terminated == nil || s.State.Terminated.FinishedAt.IsZero() {
			return false
		}
		if t := s.State.Terminated.FinishedAt.Time; t.After(last) {
			last = t
		}
		return true
	}
	for i := range p.Status.ContainerStatuses {
		if !finished(&p.Status.ContainerStatuses[i]) {
			return time.Time{}
		}
	}
	for i := range p.Status.InitContainerStatuses {
		s := &p.Status.InitContainerStatuses[i]
		if isSidecar(p, s.Name) && !finished(s) {
			return time.Time{}
		}
	}
	return last
}

func isSidecar(p *corev1.Pod, name string) bool {
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if c.Name == name {
			return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		}
	}
	return false
}

// restartsOf returns how often a pod's containers that run, or will run, have restarted.
func restartsOf(p *corev1.Pod) (n int) {
	for i := range p.Status.InitContainerStatuses {
		n += int(p.Status.InitContainerStatuses[i].RestartCount)
	}
	for i := range p.Status.ContainerStatuses {
		n += int(p.Status.ContainerStatuses[i].RestartCount)
	}
	return n
}
