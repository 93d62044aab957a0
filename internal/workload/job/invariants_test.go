package job

import (
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var batchJob = batchv1.SchemeGroupVersion.WithKind("Job")

const trackingFinalizer = batchv1.JobTrackingFinalizer

// truth is the real state of the cluster, which a cache may show late.
type truth struct {
	allPods map[types.UID]*corev1.Pod // every pod that was created, in its last version

	// removed are pods whose finalizer was removed before they finished, in order to delete them. They do not
	// count, unless they finish before they are deleted.
	removed  map[types.UID]bool
	disowned map[types.UID]bool
	changed  map[types.UID]bool // changed from Succeeded to Failed or back
	// Pods that have ever been in this state.
	succeeded, failed, terminated map[types.UID]bool

	recordedSucceeded, recordedFailed map[types.UID]bool
	// touchedAt are indexes whose pods another actor has changed: a pod was deleted, removed by a suspension
	// or a change of the spec, or created by the user, or its phase changed back. Their number of failures is
	// not checked.
	touchedAt map[int]bool
	// dropped are pods whose index was out of range at some time, and stray those whose create
	// was answered 504 and landed later.
	dropped, stray map[types.UID]bool
}

func newTruth() truth {
	set := func() map[types.UID]bool { return map[types.UID]bool{} }
	return truth{
		allPods: map[types.UID]*corev1.Pod{}, removed: set(), disowned: set(), changed: set(), succeeded: set(), failed: set(), terminated: set(),
		recordedSucceeded: set(), recordedFailed: set(), touchedAt: map[int]bool{}, dropped: set(), stray: set(),
	}
}

// observe records a version of a pod.
func (w *world) observe(p *corev1.Pod) {
	w.allPods[p.UID] = p
	switch {
	case p.Status.Phase == corev1.PodSucceeded:
		w.succeeded[p.UID] = true
	case p.Status.Phase == corev1.PodFailed:
		w.failed[p.UID] = true
	}
	if p.DeletionTimestamp != nil {
		w.terminated[p.UID] = true
	} else if isFinished(p) && !Ended(w.job()) {
		delete(w.removed, p.UID)
	}
	if w.indexed() && completionIndex(p) >= int(*w.job().Spec.Completions) {
		w.dropped[p.UID] = true
	}
}

func (w *world) indexed() bool { return w.job().Spec.CompletionMode != nil }

func (w *world) ours(p *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(p)
	return owner != nil && owner.UID == w.job().UID
}

// removeFinalizers records that a pod lost its finalizer. A pod that has not finished does not count from then
// on, unless the Job has recorded it.
func (w *world) removeFinalizers(p *corev1.Pod, removed bool) {
	u := ptr.Deref(w.job().Status.UncountedTerminatedPods, batchv1.UncountedTerminatedPods{})
	if removed && isFinished(p) {
		w.failf("%s has finished and is removed", p.UID)
	}
	if !isFinished(p) && !slices.Contains(u.Failed, p.UID) {
		w.removed[p.UID] = true
		w.touchedAt[completionIndex(p)] = true
	}
}

// checkStatus checks a status that the API accepted: what it records is true and new, and each record is
// counted exactly once.
func (w *world) checkStatus(j *batchv1.Job) {
	if w.naive.oneSync {
		return // this variant keeps no records; other checks must detect its error
	}
	u := ptr.Deref(j.Status.UncountedTerminatedPods, batchv1.UncountedTerminatedPods{})
	for _, uid := range u.Succeeded {
		if !w.succeeded[uid] || w.removed[uid] || w.recordedFailed[uid] {
			w.failf("%s is recorded as a success: it succeeded: %t, was removed: %t, recorded as a failure: %t", uid, w.succeeded[uid], w.removed[uid], w.recordedFailed[uid])
		}
		w.recordedSucceeded[uid] = true
	}
	for _, uid := range u.Failed {
		if !w.failed[uid] && !w.terminated[uid] || w.removed[uid] || w.recordedSucceeded[uid] {
			w.failf("%s is recorded as a failure: it failed: %t, was removed: %t, recorded as a success: %t", uid, w.failed[uid], w.removed[uid], w.recordedSucceeded[uid])
		}
		w.recordedFailed[uid] = true
	}
	if got := int(j.Status.Failed) + len(u.Failed); got != len(w.recordedFailed) {
		w.failf("the Job counts %d failures, %d were recorded", got, len(w.recordedFailed))
	}
	if got := int(j.Status.Succeeded) + len(u.Succeeded); !w.indexed() && got != len(w.recordedSucceeded) {
		w.failf("the Job counts %d successes, %d were recorded", got, len(w.recordedSucceeded))
	}
	if w.indexed() {
		w.checkIndexes(j)
	}
	w.checkEnd(j)
}

// checkIndexes checks that a pod of each completed index has succeeded.
func (w *world) checkIndexes(j *batchv1.Job) {
	done := map[int]bool{}
	for uid := range w.succeeded {
		done[completionIndex(w.allPods[uid])] = true
	}
	completed, _ := ParseIndexes(j.Status.CompletedIndexes, int(*j.Spec.Completions))
	for _, i := range members(completed) {
		if !done[i] {
			w.failf("index %d is complete, and no pod of it has succeeded", i)
		}
	}
}

// checkEnd checks that a Job ends for a reason that is true when it is decided. The user may increase
// completions or the limit afterwards.
func (w *world) checkEnd(j *batchv1.Job) {
	before := &w.jobs[len(w.jobs)-2].Status
	met, target := trueCondition(&j.Status, batchv1.JobSuccessCriteriaMet), trueCondition(&j.Status, batchv1.JobFailureTarget)
	if met != nil && trueCondition(before, batchv1.JobSuccessCriteriaMet) == nil && met.Reason == batchv1.JobReasonCompletionsReached {
		pods, indexes := 0, map[int]bool{}
		for uid := range w.succeeded {
			pods++
			indexes[completionIndex(w.allPods[uid])] = true
		}
		if w.indexed() {
			pods = len(indexes)
		}
		if pods < int(ptr.Deref(j.Spec.Completions, 1)) {
			w.failf("complete after %d successes", pods)
		}
	}
	if target != nil && trueCondition(before, batchv1.JobFailureTarget) == nil && target.Reason == batchv1.JobReasonBackoffLimitExceeded && j.Spec.Template.Spec.RestartPolicy == corev1.RestartPolicyNever {
		failures := 0
		for uid := range w.allPods {
			if w.failed[uid] || w.terminated[uid] {
				failures++
			}
		}
		if failures <= int(*j.Spec.BackoffLimit) {
			w.failf("failed after %d failures", failures)
		}
	}
}

// succeededCleanly reports whether a pod has succeeded and was never in a state in which it may count as
// failed or not count.
func (w *world) succeededCleanly(p *corev1.Pod) bool {
	return w.succeeded[p.UID] && !w.failed[p.UID] && !w.terminated[p.UID] && !w.removed[p.UID] && !w.disowned[p.UID] && !w.dropped[p.UID] && !w.stray[p.UID] && hadOwner(p, w.job())
}

func hadOwner(p *corev1.Pod, j *batchv1.Job) bool { return metav1.IsControlledBy(p, j) }

// anyVersion reports whether fits accepts a version of the Job that a decision may be based on: the version in
// the controller's cache or a later one.
func (w *world) anyVersion(fits func(*batchv1.Job) bool) bool {
	return slices.ContainsFunc(w.jobs[w.jobSeen-1:], fits)
}

// checkCreate checks a pod that is about to be created. A decision may be based on any version of the Job from
// the cached one on, because the user may change it at any time and may create pods that are adopted.
func (w *world) checkCreate(p *corev1.Pod) {
	active, succeeded := 1, 0
	index := completionIndex(p)
	for _, other := range w.allPods {
		if w.succeededCleanly(other) {
			succeeded++
			if w.indexed() && completionIndex(other) == index {
				w.failf("index %d is created again although it has succeeded", index)
			}
		}
	}
	for _, other := range w.pods {
		if !isActive(other) || w.removed[other.UID] || w.stray[other.UID] || !w.ours(other) {
			continue
		}
		active++
		if w.indexed() && completionIndex(other) == index {
			w.failf("index %d has a pod", index)
		}
	}
	if !w.anyVersion(func(j *batchv1.Job) bool { return active <= int(*j.Spec.Parallelism) }) {
		w.failf("%d pods are active, including the new one", active)
	}
	if !w.anyVersion(func(j *batchv1.Job) bool { return !ptr.Deref(j.Spec.Suspend, false) }) {
		w.failf("a pod is created for a suspended Job")
	}
	j := w.job()
	if c := j.Spec.Completions; c != nil && !w.indexed() && active+succeeded > int(*c) {
		w.failf("%d pods are active, including the new one, and %d have succeeded of %d completions", active, succeeded, *c)
	}
	if w.indexed() && !w.anyVersion(func(j *batchv1.Job) bool { return index >= 0 && index < int(*j.Spec.Completions) }) {
		w.failf("there is no index %d", index)
	}
	if j.Spec.Completions == nil && succeeded > 0 && w.sawSuccess() {
		w.failf("a pod is created after one has succeeded")
	}
	if Ended(j) || trueCondition(&j.Status, batchv1.JobSuccessCriteriaMet) != nil || trueCondition(&j.Status, batchv1.JobFailureTarget) != nil {
		w.failf("a pod is created after the end was decided")
	}
	w.checkFailureCounts(p)
}

// sawSuccess reports whether the caches have shown a success; without it the controller cannot observe one.
func (w *world) sawSuccess() bool {
	j := w.jobs[w.jobSeen-1]
	return j.Status.Succeeded > 0 || j.Status.UncountedTerminatedPods != nil && len(j.Status.UncountedTerminatedPods.Succeeded) > 0
}

// checkFailureCounts checks the annotations of a pod that contain how often its index has failed.
func (w *world) checkFailureCounts(p *corev1.Pod) {
	j, index := w.job(), completionIndex(p)
	if j.Spec.BackoffLimitPerIndex == nil || w.touchedAt[index] {
		return
	}
	want, wantIgnored := 0, 0
	for _, other := range w.allPods {
		switch {
		case !w.failed[other.UID] || completionIndex(other) != index:
		case handle(j.Spec.PodFailurePolicy, other).counts():
			want++
		default:
			wantIgnored++
		}
	}
	if counted, ignored := indexFailures(p); counted != want || ignored != wantIgnored {
		w.failf("index %d: a created pod has annotations for %d failures and %d ignored, there were %d and %d", index, counted, ignored, want, wantIgnored)
	}
}

// failf ends the run with a violation. It panics with the trace of the run.
func (w *world) failf(format string, args ...any) {
	panic(violation(fmt.Sprintf(format, args...) + "\n\t" + strings.Join(w.trace, "\n\t")))
}

type violation string

// finish delivers everything, lets all actors finish their work, and checks the end.
func (w *world) finish() {
	for w.land() {
	}
	for range 600 {
		for w.deliverJob() || w.deliverPod() {
		}
		w.kubelet(0)
		w.now = w.now.Add(15 * time.Second)
		w.sync(0)
		if Ended(w.job()) && w.jobSeen == len(w.jobs) && w.logSeen == len(w.log) {
			w.checkCounted()
			return
		}
	}
	w.failf("the Job has not ended: %+v", w.job().Status)
}

// checkCounted checks at the end that every pod was counted.
func (w *world) checkCounted() {
	if w.naive.oneSync {
		return
	}
	j := w.job()
	completed, _ := ParseIndexes(j.Status.CompletedIndexes, int(ptr.Deref(j.Spec.Completions, 0)))
	for uid, p := range w.allPods {
		i := completionIndex(p)
		switch {
		case w.pods[p.Name] == p && w.ours(p) && hasFinalizer(p):
			w.failf("%s still has the finalizer", uid)
		case w.removed[uid], w.stray[uid], w.disowned[uid], w.dropped[uid], !w.ours(p), w.recordedFailed[uid], w.recordedSucceeded[uid]:
		case w.indexed() && (i == noIndex || i >= int(*j.Spec.Completions)):
		case w.succeeded[uid] && w.indexed() && (completed.Has(i) || w.touchedAt[i] || j.Spec.BackoffLimitPerIndex != nil):
		case w.changed[uid] && j.Spec.PodFailurePolicy != nil: // it was ignored when it was released
		case w.failed[uid] && !handle(j.Spec.PodFailurePolicy, p).counts():
		case p.DeletionTimestamp != nil && !w.succeeded[uid] && trueCondition(&j.Status, batchv1.JobComplete) != nil:
		default:
			w.failf("%s (%s) was never recorded", uid, p.Status.Phase)
		}
	}
}
