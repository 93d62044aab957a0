package onesyncjob

import (
	"context"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
)

// view is a Job and its pods as one sync observes them.
type view struct {
	key         cache.ObjectName
	job         *batchv1.Job
	active      []*corev1.Pod
	terminating int
	finished    []*corev1.Pod // not counted, judging by the finalizer
	held        []*corev1.Pod // all pods with the finalizer
	indexes     []int         // of pods that have succeeded
}

func (c *controller) sync(ctx context.Context, key cache.ObjectName) error {
	job, err := c.jobs.Jobs(key.Namespace).Get(key.Name)
	if err != nil {
		return err
	}
	if !c.satisfied(key) {
		return nil // an event should arrive and cause the next sync
	}
	v, err := c.look(key, job.DeepCopy())
	if err != nil {
		return err
	}
	if finished(v.job) {
		return c.releaseAll(ctx, v.held)
	}
	before := v.job.Status.DeepCopy()
	v.record()
	if err := c.decide(ctx, v); err != nil {
		return err
	}
	status := &v.job.Status
	status.Active = int32(len(v.active))
	if status.StartTime == nil {
		now := metav1.Now()
		status.StartTime = &now
	}
	if len(v.finished) == 0 && before.StartTime != nil && before.Active == status.Active && len(before.Conditions) == len(status.Conditions) && !v.mayEnd() {
		return nil
	}
	return c.countAndRelease(ctx, v)
}

// look classifies the pods of a Job.
func (c *controller) look(key cache.ObjectName, job *batchv1.Job) (*view, error) {
	pods, err := c.pods.Pods(key.Namespace).List(labels.Everything())
	if err != nil {
		return nil, err
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	v := &view{key: key, job: job, indexes: parse(job.Status.CompletedIndexes)}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, pod := range pods {
		if !metav1.IsControlledBy(pod, job) {
			continue
		}
		held := slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) && !c.released[pod.UID]
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if held {
			v.held = append(v.held, pod)
		}
		switch {
		case ended && held:
			v.finished = append(v.finished, pod)
		case ended:
		case pod.DeletionTimestamp != nil:
			v.terminating++
		default:
			v.active = append(v.active, pod)
		}
	}
	return v, nil
}

// record adds the finished pods to the status in memory.
func (v *view) record() {
	status := &v.job.Status
	if status.UncountedTerminatedPods == nil {
		status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	uncounted := status.UncountedTerminatedPods
	for _, pod := range v.finished {
		failed := pod.Status.Phase == corev1.PodFailed
		switch {
		case failed && !slices.Contains(uncounted.Failed, pod.UID):
			uncounted.Failed = append(uncounted.Failed, pod.UID)
		case failed:
		case indexed(v.job):
			if n := indexOf(pod); n >= 0 && !slices.Contains(v.indexes, n) {
				v.indexes = append(v.indexes, n)
			}
		case !slices.Contains(uncounted.Succeeded, pod.UID):
			uncounted.Succeeded = append(uncounted.Succeeded, pod.UID)
		}
	}
	slices.Sort(v.indexes)
	status.CompletedIndexes = format(v.indexes)
	if indexed(v.job) {
		status.Succeeded = int32(len(v.indexes))
	}
}

func (v *view) succeeded() int {
	return int(v.job.Status.Succeeded) + len(v.job.Status.UncountedTerminatedPods.Succeeded)
}

func (v *view) failed() int {
	return int(v.job.Status.Failed) + len(v.job.Status.UncountedTerminatedPods.Failed)
}

// decide decides whether the Job has succeeded or failed, and otherwise creates missing pods or
// deletes surplus ones.
func (c *controller) decide(ctx context.Context, v *view) error {
	spec, missing := &v.job.Spec, 0
	switch n := len(v.active); {
	case has(v.job, batchv1.JobFailureTarget) || v.failed() > int(*spec.BackoffLimit):
		set(v.job, batchv1.JobFailureTarget, batchv1.JobReasonBackoffLimitExceeded)
		missing = -n
	case spec.Completions == nil && v.succeeded() > 0:
		if n == 0 {
			set(v.job, batchv1.JobSuccessCriteriaMet, batchv1.JobReasonCompletionsReached)
		}
	case spec.Completions == nil:
		missing = int(*spec.Parallelism) - n
	case v.succeeded() >= int(*spec.Completions):
		set(v.job, batchv1.JobSuccessCriteriaMet, batchv1.JobReasonCompletionsReached)
		missing = -n
	default:
		missing = min(int(*spec.Parallelism), int(*spec.Completions)-v.succeeded()) - n
	}
	if missing < 0 {
		return c.deletePods(ctx, v, -missing)
	}
	return c.createPods(ctx, v, missing)
}

// mayEnd reports whether a decided Job has no pods left to count or release.
func (v *view) mayEnd() bool {
	decided := has(v.job, batchv1.JobFailureTarget) || has(v.job, batchv1.JobSuccessCriteriaMet)
	return decided && len(v.active) == 0 && v.terminating == 0
}

// countAndRelease is the bug: one sync stores the record, removes the finalizers, and counts the
// pods.
func (c *controller) countAndRelease(ctx context.Context, v *view) error {
	job, err := c.client.BatchV1().Jobs(v.job.Namespace).UpdateStatus(ctx, v.job, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	if err := c.releaseAll(ctx, v.finished); err != nil {
		return err
	}
	v.job = job.DeepCopy()
	status := &v.job.Status
	if status.UncountedTerminatedPods != nil {
		status.Succeeded += int32(len(status.UncountedTerminatedPods.Succeeded))
		status.Failed += int32(len(status.UncountedTerminatedPods.Failed))
		status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	if v.mayEnd() {
		now := metav1.Now()
		if has(v.job, batchv1.JobFailureTarget) {
			set(v.job, batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)
		} else {
			status.CompletionTime = &now
			set(v.job, batchv1.JobComplete, batchv1.JobReasonCompletionsReached)
		}
	} else if len(v.finished) == 0 {
		return nil
	}
	_, err = c.client.BatchV1().Jobs(v.job.Namespace).UpdateStatus(ctx, v.job, metav1.UpdateOptions{})
	return err
}

func finished(job *batchv1.Job) bool {
	return has(job, batchv1.JobComplete) || has(job, batchv1.JobFailed)
}

func has(job *batchv1.Job, typ batchv1.JobConditionType) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == typ && c.Status == corev1.ConditionTrue
	})
}

func set(job *batchv1.Job, typ batchv1.JobConditionType, reason string) {
	if !has(job, typ) {
		now := metav1.Now()
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: typ, Status: corev1.ConditionTrue, Reason: reason, LastProbeTime: now, LastTransitionTime: now,
		})
	}
}

func indexed(job *batchv1.Job) bool {
	return job.Spec.CompletionMode != nil && *job.Spec.CompletionMode == batchv1.IndexedCompletion
}

func indexOf(pod *corev1.Pod) int {
	n, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
	if err != nil {
		return -1
	}
	return n
}

// parse and format read and write completed indexes, such as "0,2-4". format lists each index
// separately, which the API permits.
func parse(text string) (indexes []int) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, _ := strings.Cut(part, "-")
		a, err := strconv.Atoi(first)
		if err != nil {
			continue
		}
		b, err := strconv.Atoi(last)
		if err != nil {
			b = a
		}
		for n := a; n <= b; n++ {
			indexes = append(indexes, n)
		}
	}
	return indexes
}

func format(indexes []int) string {
	var parts []string
	for _, n := range indexes {
		parts = append(parts, strconv.Itoa(n))
	}
	return strings.Join(parts, ",")
}
