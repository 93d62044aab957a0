package job

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// refusals are the reasons for which the API of 1.36 would refuse a new status of a
// Job (pkg/registry/batch/job/strategy.go and pkg/apis/batch/validation).
func refusals(old, next *batchv1.Job) (why []string) {
	o, s, spec := &old.Status, &next.Status, &next.Spec
	refuse := func(is bool, format string, args ...any) {
		if is {
			why = append(why, fmt.Sprintf(format, args...))
		}
	}
	is := func(s *batchv1.JobStatus, t batchv1.JobConditionType) bool { return trueCondition(s, t) != nil }
	complete, failed := is(s, batchv1.JobComplete), is(s, batchv1.JobFailed)
	met, target := is(s, batchv1.JobSuccessCriteriaMet), is(s, batchv1.JobFailureTarget)
	ended := complete || failed
	u := ptr.Deref(s.UncountedTerminatedPods, batchv1.UncountedTerminatedPods{})

	refuse(s.Active < 0 || s.Succeeded < 0 || s.Failed < 0 || ptr.Deref(s.Ready, 0) < 0 || ptr.Deref(s.Terminating, 0) < 0, "a number below zero")
	refuse(ptr.Deref(s.Ready, 0) > s.Active, "%d ready of %d active", ptr.Deref(s.Ready, 0), s.Active)
	seen := map[types.UID]bool{}
	for _, uids := range [][]types.UID{u.Succeeded, u.Failed} {
		for _, uid := range uids {
			refuse(uid == "" || seen[uid], "%q is recorded twice, or is none", uid)
			seen[uid] = true
		}
	}

	refuse(complete && failed, "Complete and Failed")
	refuse(complete && target, "Complete and FailureTarget")
	refuse(met && (failed || target), "SuccessCriteriaMet and Failed or FailureTarget")
	refuse(complete && !met, "Complete without SuccessCriteriaMet")
	refuse(failed && !target, "Failed without FailureTarget")
	for _, t := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet} {
		refuse(is(o, t) && !is(s, t), "%s is taken back", t)
	}

	refuse(ended && (s.Active > 0 || ptr.Deref(s.Terminating, 0) > 0), "ended with %d active and %d terminating", s.Active, ptr.Deref(s.Terminating, 0))
	refuse(ended && len(seen) > 0, "ended with %d uncounted", len(seen))
	suspended := ptr.Deref(spec.Suspend, false)
	refuse(ended && s.StartTime == nil && !(suspended && ptr.Equal(spec.Completions, ptr.To[int32](0))), "ended and never started")
	refuse(complete != (s.CompletionTime != nil), "Complete and completionTime do not go together")
	refuse(s.CompletionTime != nil && s.StartTime != nil && s.CompletionTime.Before(s.StartTime), "completed before it started")
	refuse(s.CompletionTime != nil && o.CompletionTime != nil && !s.CompletionTime.Equal(o.CompletionTime), "another completionTime")
	resumes := is(o, batchv1.JobSuspended) && conditionIs(s, batchv1.JobSuspended, corev1.ConditionFalse)
	refuse(o.StartTime != nil && !equality.Semantic.DeepEqual(o.StartTime, s.StartTime) && !resumes && !suspended, "another startTime while it is not suspended")

	indexed := ptr.Deref(spec.CompletionMode, batchv1.NonIndexedCompletion) == batchv1.IndexedCompletion
	refuse(s.Failed < o.Failed, "failed goes from %d back to %d", o.Failed, s.Failed)
	refuse(s.Succeeded < o.Succeeded && (!indexed || !ptr.Equal(spec.Completions, spec.Parallelism)), "succeeded goes from %d back to %d", o.Succeeded, s.Succeeded)
	refuse(s.CompletedIndexes != "" && !indexed, "completedIndexes of a Job that has no indexes")
	refuse(s.FailedIndexes != nil && spec.BackoffLimitPerIndex == nil, "failedIndexes without backoffLimitPerIndex")
	if indexed && (s.CompletedIndexes != o.CompletedIndexes || !ptr.Equal(s.FailedIndexes, o.FailedIndexes)) {
		done, errDone := ParseIndexes(s.CompletedIndexes, int(*spec.Completions))
		bad, errBad := ParseIndexes(ptr.Deref(s.FailedIndexes, ""), int(*spec.Completions))
		refuse(errDone != nil || errBad != nil, "indexes %q and %q", s.CompletedIndexes, ptr.Deref(s.FailedIndexes, ""))
		refuse(done.String() != s.CompletedIndexes || bad.String() != ptr.Deref(s.FailedIndexes, ""), "indexes from %d on", *spec.Completions)
		refuse(done.Common(bad) > 0, "indexes have succeeded and failed")
	}
	return why
}

func conditionIs(s *batchv1.JobStatus, t batchv1.JobConditionType, status corev1.ConditionStatus) bool {
	c := conditionOf(s, t)
	return c != nil && c.Status == status
}
