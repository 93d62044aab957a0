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

// truth is what really happened, which no cache shows.
type truth struct {
	made map[types.UID]*corev1.Pod // every pod ever, as it was last

	// removed are pods that were released before they finished, to be deleted: they count for
	// nothing, unless they finish before they are deleted.
	removed  map[types.UID]bool
	disowned map[types.UID]bool
	changed  map[types.UID]bool // finished in one way, then in the other
	// Pods that have ever been so.
	succeeded, failed, terminated map[types.UID]bool

	recordedSucceeded, recordedFailed map[types.UID]bool
	// touchedAt are indexes at which others had a hand: a pod was deleted, removed by a
	// suspension or a change of the spec, made by the user, or its phase changed
	// back. How often they failed is not promised.
	touchedAt map[int]bool
	// dropped are pods whose index was out of range at some time, and stray those whose create
	// was answered 504 and landed later.
	dropped, stray map[types.UID]bool
}

func newTruth() truth {
	set := func() map[types.UID]bool { return map[types.UID]bool{} }
	return truth{
		made: map[types.UID]*corev1.Pod{}, removed: set(), disowned: set(), changed: set(), succeeded: set(), failed: set(), terminated: set(),
		recordedSucceeded: set(), recordedFailed: set(), touchedAt: map[int]bool{}, dropped: set(), stray: set(),
	}
}

// happened takes in a version of a pod.
func (w *world) happened(p *corev1.Pod) {
	w.made[p.UID] = p
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

// letGo looks at a pod whose finalizer is removed. One that has not finished counts for
// nothing from then on, unless the Job has recorded it.
func (w *world) removeFinalizers(p *corev1.Pod, removed bool) {
	u := ptr.Deref(w.job().Status.UncountedTerminatedPods, batchv1.UncountedTerminatedPods{})
	if removed && isFinished(p) {
		w.broken("%s has finished and is removed", p.UID)
	}
	if !isFinished(p) && !slices.Contains(u.Failed, p.UID) {
		w.removed[p.UID] = true
		w.touchedAt[completionIndex(p)] = true
	}
}

// record looks at a status that was accepted: what it records is true and new, and
// each record is counted once, neither lost nor doubled. That holds always.
func (w *world) record(j *batchv1.Job) {
	if w.naive.oneSync {
		return // it keeps no records; it is to be found out by what comes of that
	}
	u := ptr.Deref(j.Status.UncountedTerminatedPods, batchv1.UncountedTerminatedPods{})
	for _, uid := range u.Succeeded {
		if !w.succeeded[uid] || w.removed[uid] || w.recordedFailed[uid] {
			w.broken("%s is recorded as a success: it succeeded: %t, was removed: %t, recorded as a failure: %t", uid, w.succeeded[uid], w.removed[uid], w.recordedFailed[uid])
		}
		w.recordedSucceeded[uid] = true
	}
	for _, uid := range u.Failed {
		if !w.failed[uid] && !w.terminated[uid] || w.removed[uid] || w.recordedSucceeded[uid] {
			w.broken("%s is recorded as a failure: it failed: %t, was removed: %t, recorded as a success: %t", uid, w.failed[uid], w.removed[uid], w.recordedSucceeded[uid])
		}
		w.recordedFailed[uid] = true
	}
	if got := int(j.Status.Failed) + len(u.Failed); got != len(w.recordedFailed) {
		w.broken("the Job counts %d failures, %d were recorded", got, len(w.recordedFailed))
	}
	if got := int(j.Status.Succeeded) + len(u.Succeeded); !w.indexed() && got != len(w.recordedSucceeded) {
		w.broken("the Job counts %d successes, %d were recorded", got, len(w.recordedSucceeded))
	}
	if w.indexed() {
		w.recordIndexes(j)
	}
	w.ends(j)
}

// recordIndexes: an index is complete because a pod of it succeeded.
func (w *world) recordIndexes(j *batchv1.Job) {
	done := map[int]bool{}
	for uid := range w.succeeded {
		done[completionIndex(w.made[uid])] = true
	}
	completed, _ := ParseIndexes(j.Status.CompletedIndexes, int(*j.Spec.Completions))
	for _, i := range members(completed) {
		if !done[i] {
			w.broken("index %d is complete, and no pod of it has succeeded", i)
		}
	}
}

// ends: a Job ends for a reason that is true when it is decided; the user may make it
// larger afterwards.
func (w *world) ends(j *batchv1.Job) {
	before := &w.jobs[len(w.jobs)-2].Status
	met, target := trueCondition(&j.Status, batchv1.JobSuccessCriteriaMet), trueCondition(&j.Status, batchv1.JobFailureTarget)
	if met != nil && trueCondition(before, batchv1.JobSuccessCriteriaMet) == nil && met.Reason == batchv1.JobReasonCompletionsReached {
		pods, indexes := 0, map[int]bool{}
		for uid := range w.succeeded {
			pods++
			indexes[completionIndex(w.made[uid])] = true
		}
		if w.indexed() {
			pods = len(indexes)
		}
		if pods < int(ptr.Deref(j.Spec.Completions, 1)) {
			w.broken("complete after %d successes", pods)
		}
	}
	if target != nil && trueCondition(before, batchv1.JobFailureTarget) == nil && target.Reason == batchv1.JobReasonBackoffLimitExceeded && j.Spec.Template.Spec.RestartPolicy == corev1.RestartPolicyNever {
		failures := 0
		for uid := range w.made {
			if w.failed[uid] || w.terminated[uid] {
				failures++
			}
		}
		if failures <= int(*j.Spec.BackoffLimit) {
			w.broken("failed after %d failures", failures)
		}
	}
}

// clean tells whether a pod has succeeded without anything that makes it a failure
// before: it is a success for good.
func (w *world) clean(p *corev1.Pod) bool {
	return w.succeeded[p.UID] && !w.failed[p.UID] && !w.terminated[p.UID] && !w.removed[p.UID] && !w.disowned[p.UID] && !w.dropped[p.UID] && !w.stray[p.UID] && hadOwner(p, w.job())
}

func hadOwner(p *corev1.Pod, j *batchv1.Job) bool { return metav1.IsControlledBy(p, j) }

// since are the versions of the Job that a decision may go by: the one that the
// controller sees, and all later ones.
func (w *world) since(fits func(*batchv1.Job) bool) bool {
	return slices.ContainsFunc(w.jobs[w.jobSeen-1:], fits)
}

// mayMake looks at a pod that is about to be made. Everything is judged by any version
// of the Job that the controller may go by: the user may change it at any time, and
// may bring pods that are adopted.
func (w *world) mayMake(p *corev1.Pod) {
	active, succeeded := 1, 0
	index := completionIndex(p)
	for _, other := range w.made {
		if w.clean(other) {
			succeeded++
			if w.indexed() && completionIndex(other) == index {
				w.broken("index %d is tried again, it has succeeded", index)
			}
		}
	}
	for _, other := range w.pods {
		if !isActive(other) || w.removed[other.UID] || w.stray[other.UID] || !w.ours(other) {
			continue
		}
		active++
		if w.indexed() && completionIndex(other) == index {
			w.broken("index %d has a pod", index)
		}
	}
	if !w.since(func(j *batchv1.Job) bool { return active <= int(*j.Spec.Parallelism) }) {
		w.broken("%d pods are active, with the one that is made", active)
	}
	if !w.since(func(j *batchv1.Job) bool { return !ptr.Deref(j.Spec.Suspend, false) }) {
		w.broken("a pod is made for a suspended Job")
	}
	j := w.job()
	if c := j.Spec.Completions; c != nil && !w.indexed() && active+succeeded > int(*c) {
		w.broken("%d pods are active, with the one that is made, and %d have succeeded of %d completions", active, succeeded, *c)
	}
	if w.indexed() && !w.since(func(j *batchv1.Job) bool { return index >= 0 && index < int(*j.Spec.Completions) }) {
		w.broken("there is no index %d", index)
	}
	if j.Spec.Completions == nil && succeeded > 0 && w.sawSuccess() {
		w.broken("a pod is made after one has succeeded")
	}
	if Ended(j) || trueCondition(&j.Status, batchv1.JobSuccessCriteriaMet) != nil || trueCondition(&j.Status, batchv1.JobFailureTarget) != nil {
		w.broken("a pod is made after the end was decided")
	}
	w.failuresOf(p)
}

// sawSuccess: the caches have shown a success, without which nobody can know.
func (w *world) sawSuccess() bool {
	j := w.jobs[w.jobSeen-1]
	return j.Status.Succeeded > 0 || j.Status.UncountedTerminatedPods != nil && len(j.Status.UncountedTerminatedPods.Succeeded) > 0
}

// failuresOf: a pod says how often its index has failed.
func (w *world) failuresOf(p *corev1.Pod) {
	j, index := w.job(), completionIndex(p)
	if j.Spec.BackoffLimitPerIndex == nil || w.touchedAt[index] {
		return
	}
	want, wantIgnored := 0, 0
	for _, other := range w.made {
		switch {
		case !w.failed[other.UID] || completionIndex(other) != index:
		case handle(j.Spec.PodFailurePolicy, other).counts():
			want++
		default:
			wantIgnored++
		}
	}
	if counted, ignored := indexFailures(p); counted != want || ignored != wantIgnored {
		w.broken("index %d: a pod is made that says %d failures and %d ignored, there were %d and %d", index, counted, ignored, want, wantIgnored)
	}
}

// broken ends the run. It panics with the story, for whoever searches.
func (w *world) broken(format string, args ...any) {
	panic(violation(fmt.Sprintf(format, args...) + "\n\t" + strings.Join(w.story, "\n\t")))
}

type violation string

// finish lets everything arrive and everybody do his work, and checks the end.
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
			w.counted()
			return
		}
	}
	w.broken("the Job has not ended: %+v", w.job().Status)
}

// counted checks at the end that no pod was forgotten.
func (w *world) counted() {
	if w.naive.oneSync {
		return
	}
	j := w.job()
	completed, _ := ParseIndexes(j.Status.CompletedIndexes, int(ptr.Deref(j.Spec.Completions, 0)))
	for uid, p := range w.made {
		i := completionIndex(p)
		switch {
		case w.pods[p.Name] == p && w.ours(p) && hasFinalizer(p):
			w.broken("%s is still held", uid)
		case w.removed[uid], w.stray[uid], w.disowned[uid], w.dropped[uid], !w.ours(p), w.recordedFailed[uid], w.recordedSucceeded[uid]:
		case w.indexed() && (i == noIndex || i >= int(*j.Spec.Completions)):
		case w.succeeded[uid] && w.indexed() && (completed.Has(i) || w.touchedAt[i] || j.Spec.BackoffLimitPerIndex != nil):
		case w.changed[uid] && j.Spec.PodFailurePolicy != nil: // it was ignored when it was released
		case w.failed[uid] && !handle(j.Spec.PodFailurePolicy, p).counts():
		case p.DeletionTimestamp != nil && !w.succeeded[uid] && trueCondition(&j.Status, batchv1.JobComplete) != nil:
		default:
			w.broken("%s (%s) was never recorded", uid, p.Status.Phase)
		}
	}
}
