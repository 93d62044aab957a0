package job

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// rejections returns why the API of Kubernetes 1.36 would reject a new status of a Job
// (pkg/registry/batch/job/strategy.go and pkg/apis/batch/validation).
func rejections(old, next *batchv1.Job) (why []string) {
	o, s, spec := &old.Status, &next.Status, &next.Spec
	reject := func(is bool, format string, args ...any) {
		if is {
			why = append(why, fmt.Sprintf(format, args...))
		}
	}
	is := func(s *batchv1.JobStatus, t batchv1.JobConditionType) bool { return trueCondition(s, t) != nil }
	complete, failed := is(s, batchv1.JobComplete), is(s, batchv1.JobFailed)
	met, target := is(s, batchv1.JobSuccessCriteriaMet), is(s, batchv1.JobFailureTarget)
	ended := complete || failed
	u := ptr.Deref(s.UncountedTerminatedPods, batchv1.UncountedTerminatedPods{})

	reject(s.Active < 0 || s.Succeeded < 0 || s.Failed < 0 || ptr.Deref(s.Ready, 0) < 0 || ptr.Deref(s.Terminating, 0) < 0, "a number below zero")
	reject(ptr.Deref(s.Ready, 0) > s.Active, "%d ready of %d active", ptr.Deref(s.Ready, 0), s.Active)
	seen := map[types.UID]bool{}
	for _, uids := range [][]types.UID{u.Succeeded, u.Failed} {
		for _, uid := range uids {
			reject(uid == "" || seen[uid], "%q is recorded twice or empty", uid)
			seen[uid] = true
		}
	}

	reject(complete && failed, "Complete and Failed")
	reject(complete && target, "Complete and FailureTarget")
	reject(met && (failed || target), "SuccessCriteriaMet and Failed or FailureTarget")
	reject(complete && !met, "Complete without SuccessCriteriaMet")
	reject(failed && !target, "Failed without FailureTarget")
	for _, t := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet} {
		reject(is(o, t) && !is(s, t), "%s is no longer True", t)
	}

	reject(ended && (s.Active > 0 || ptr.Deref(s.Terminating, 0) > 0), "ended with %d active and %d terminating", s.Active, ptr.Deref(s.Terminating, 0))
	reject(ended && len(seen) > 0, "ended with %d uncounted", len(seen))
	suspended := ptr.Deref(spec.Suspend, false)
	reject(ended && s.StartTime == nil && !(suspended && ptr.Equal(spec.Completions, ptr.To[int32](0))), "ended without startTime")
	reject(complete != (s.CompletionTime != nil), "Complete and completionTime do not agree")
	reject(s.CompletionTime != nil && s.StartTime != nil && s.CompletionTime.Before(s.StartTime), "completed before it started")
	reject(s.CompletionTime != nil && o.CompletionTime != nil && !s.CompletionTime.Equal(o.CompletionTime), "completionTime changes")
	resumes := is(o, batchv1.JobSuspended) && conditionIs(s, batchv1.JobSuspended, corev1.ConditionFalse)
	reject(o.StartTime != nil && !equality.Semantic.DeepEqual(o.StartTime, s.StartTime) && !resumes && !suspended, "startTime changes while the Job is not suspended")

	indexed := ptr.Deref(spec.CompletionMode, batchv1.NonIndexedCompletion) == batchv1.IndexedCompletion
	reject(s.Failed < o.Failed, "failed goes from %d back to %d", o.Failed, s.Failed)
	reject(s.Succeeded < o.Succeeded && (!indexed || !ptr.Equal(spec.Completions, spec.Parallelism)), "succeeded goes from %d back to %d", o.Succeeded, s.Succeeded)
	reject(s.CompletedIndexes != "" && !indexed, "completedIndexes of a Job that has no indexes")
	reject(s.FailedIndexes != nil && spec.BackoffLimitPerIndex == nil, "failedIndexes without backoffLimitPerIndex")
	if indexed && (s.CompletedIndexes != o.CompletedIndexes || !ptr.Equal(s.FailedIndexes, o.FailedIndexes)) {
		done, errDone := ParseIndexes(s.CompletedIndexes, int(*spec.Completions))
		bad, errBad := ParseIndexes(ptr.Deref(s.FailedIndexes, ""), int(*spec.Completions))
		reject(errDone != nil || errBad != nil, "indexes %q and %q", s.CompletedIndexes, ptr.Deref(s.FailedIndexes, ""))
		reject(done.String() != s.CompletedIndexes || bad.String() != ptr.Deref(s.FailedIndexes, ""), "indexes not in canonical form, or %d or larger", *spec.Completions)
		reject(done.Common(bad) > 0, "indexes that are both completed and failed")
	}
	return why
}

func conditionIs(s *batchv1.JobStatus, t batchv1.JobConditionType, status corev1.ConditionStatus) bool {
	c := conditionOf(s, t)
	return c != nil && c.Status == status
}
