package job

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// TestDeadline contains the cases of upstream's TestSyncJobPastDeadline.
func TestDeadline(t *testing.T) {
	play(t, []played{
		{name: "shorter than one pod", job: "p=1 c=1 deadline=10 started=15", pods: "R", want: "terminating=1 failed=1 removed=1 released=1 FailureTarget(DeadlineExceeded)"},
		{name: "between two pods", job: "p=1 c=2 deadline=10 started=15", pods: "R, S", want: "terminating=1 succeeded=1 failed=1 removed=1 released=2 FailureTarget(DeadlineExceeded)"},
		{name: "before any pod", job: "p=1 c=1 deadline=10 started=10", want: "FailureTarget(DeadlineExceeded) Failed(DeadlineExceeded)"},
		{name: "the backoff limit precedes the deadline", job: "p=1 c=1 backoff=0 deadline=1 started=10", pods: "F", want: "failed=1 released=1 FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)"},
		{name: "not while suspended", job: "p=1 c=2 deadline=10 started=15 suspend", want: "Suspended(JobSuspended)"},
		{name: "a deadline of zero", job: "p=1 c=1 deadline=0", want: "FailureTarget(DeadlineExceeded) Failed(DeadlineExceeded)"},
		{name: "the deadline restarts when the Job is resumed", job: "p=1 c=1 deadline=10 started=15 was-suspended", want: "active=1 created=1 Suspended=False(JobResumed)"},
		{name: "the deadline precedes success", job: "p=1 c=1 deadline=10 started=15", pods: "S", want: "succeeded=1 released=1 FailureTarget(DeadlineExceeded) Failed(DeadlineExceeded)"},
	})
	s := newHarness(t, newJob("p=1 c=1 deadline=10 started=4"), newPods("R"))
	s.settle()
	if s.last.Wake != 6*time.Second {
		t.Errorf("wakes in %s, the deadline is in 6s", s.last.Wake)
	}
}

// TestRestarts contains the cases of upstream's TestJobBackoffForOnFailure: restarts count while pods run.
func TestRestarts(t *testing.T) {
	failed := "failed=1 removed=1 released=1 FailureTarget(BackoffLimitExceeded)"
	play(t, []played{
		{name: "limit 0, none", job: "p=1 c=1 backoff=0 restarts", pods: "R restarts=0", want: "active=1"},
		{name: "limit 0, one", job: "p=1 c=1 backoff=0 restarts", pods: "R restarts=1", want: "terminating=1 " + failed},
		{name: "limit 1, none", job: "p=1 c=1 backoff=1 restarts", pods: "R restarts=0", want: "active=1"},
		{name: "limit 1, one", job: "p=1 c=1 backoff=1 restarts", pods: "R restarts=1", want: "terminating=1 " + failed},
		{name: "pending", job: "p=1 c=1 backoff=1 restarts", pods: "P restarts=1", want: "terminating=1 " + failed},
		{name: "the sum", job: "p=2 c=5 backoff=3 restarts", pods: "R restarts=1, P restarts=2", want: "terminating=2 failed=2 removed=2 released=2 FailureTarget(BackoffLimitExceeded)"},
		{name: "not enough", job: "p=2 c=5 backoff=3 restarts", pods: "R restarts=1, R restarts=1", want: "active=2"},
		{name: "restarts of finished pods do not count", job: "p=2 c=5 backoff=3 restarts", pods: "R restarts=1, R, S restarts=9", want: "active=2 succeeded=1 released=1"},
		{name: "restartPolicy Never", job: "p=1 c=1 backoff=1", pods: "R restarts=9", want: "active=1"},
		{name: "suspended", job: "p=4 c=4 backoff=6 restarts suspend", pods: "R restarts=1", want: "terminating=1 removed=1 Suspended(JobSuspended)"},
	})
}

// TestBackoffLimit contains the cases of upstream's TestJobBackoffOnRestartPolicyNever.
func TestBackoffLimit(t *testing.T) {
	play(t, []played{
		{name: "0, none failed", job: "p=1 c=1 backoff=0", pods: "R", want: "active=1"},
		{name: "1, one failed", job: "p=1 c=1 backoff=1", pods: "F", want: "active=1 failed=1 created=1 released=1"},
		{name: "1, two failed", job: "p=1 c=1 backoff=1", pods: "2 F", want: "failed=2 released=2 FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)"},
		{name: "6, six failed", job: "p=2 c=2 backoff=6", pods: "R, 6 F ago=800", want: "active=2 failed=6 created=1 released=6"},
		{name: "6, seven failed", job: "p=2 c=2 backoff=6", pods: "7 F", want: "failed=7 released=7 FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)"},
		{name: "recorded and counted failures", job: "p=1 c=1 backoff=2 failed=1 uncounted-failed=a", pods: "a: F, F", want: "failed=3 released=2 FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)"},
	})
}

// TestSuccessPolicySync contains the cases of upstream's TestSyncJobWithJobSuccessPolicy.
func TestSuccessPolicySync(t *testing.T) {
	oneOf := successPolicy("0,1/1")
	all := func(f ...func(*batchv1.Job)) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			for _, g := range f {
				g(j)
			}
		}
	}
	disrupted := failurePolicy(onCondition(batchv1.PodFailurePolicyActionFailJob, "DisruptionTarget"))
	any1 := successPolicy("/1")
	play(t, []played{
		{name: "some fail, some run", job: "p=3 c=3 indexed", pods: "F #0, R #0, S #1, R #2", change: oneOf,
			want: "terminating=2 succeeded=1 failed=1 completed=1 removed=2 released=2 SuccessCriteriaMet(SuccessPolicy)"},
		{name: "failure policy does not match", job: "p=2 c=2 indexed", pods: "R #0, S #1", change: all(oneOf, disrupted),
			want: "terminating=1 succeeded=1 completed=1 removed=1 released=1 SuccessCriteriaMet(SuccessPolicy)"},
		{name: "the policy is satisfied, a pod terminates", job: "p=2 c=2 indexed met=SuccessPolicy started=9 succeeded=1 completed=1", pods: "R #0 terminating untracked, S #1 untracked", change: any1,
			want: "terminating=1 succeeded=1 completed=1 SuccessCriteriaMet(SuccessPolicy)"},
		{name: "the policy is satisfied, no pod is left", job: "p=2 c=2 indexed met=SuccessPolicy started=9 succeeded=1 completed=1", pods: "S #1", change: any1,
			want: "succeeded=1 completed=1 released=1 SuccessCriteriaMet(SuccessPolicy) Complete(SuccessPolicy)"},
		{name: "failure policy precedes success policy", job: "p=2 c=2 indexed", pods: "F #0 cond=DisruptionTarget, S #1", change: all(any1, disrupted),
			want: "succeeded=1 failed=1 completed=1 released=2 FailureTarget(PodFailurePolicy) Failed(PodFailurePolicy)"},
		{name: "failed indexes precede success policy", job: "p=2 c=2 indexed perindex=0", pods: "F #0, S #1", change: any1,
			want: "succeeded=1 failed=1 completed=1 failed-indexes=0 released=2 FailureTarget(FailedIndexes) Failed(FailedIndexes)"},
		{name: "backoffLimit precedes success policy", job: "p=2 c=2 indexed backoff=0", pods: "F #0, S #1", change: any1,
			want: "succeeded=1 failed=1 completed=1 released=2 FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)"},
		{name: "met stays met: failure policy", job: "p=2 c=2 indexed met=SuccessPolicy started=9 succeeded=1 completed=1", pods: "F #0 cond=DisruptionTarget, S #1", change: all(any1, disrupted),
			want: "succeeded=1 failed=1 completed=1 released=2 SuccessCriteriaMet(SuccessPolicy) Complete(SuccessPolicy)"},
		{name: "met stays met: backoffLimit", job: "p=2 c=2 indexed backoff=0 met=SuccessPolicy started=9 succeeded=1 completed=1", pods: "F #0, S #1", change: any1,
			want: "succeeded=1 failed=1 completed=1 released=2 SuccessCriteriaMet(SuccessPolicy) Complete(SuccessPolicy)"},
		{name: "met stays met: failed indexes", job: "p=2 c=2 indexed perindex=0 met=SuccessPolicy started=9 succeeded=1 completed=1", pods: "F #0, S #1", change: any1,
			want: "succeeded=1 failed=1 completed=1 failed-indexes=0 released=2 SuccessCriteriaMet(SuccessPolicy) Complete(SuccessPolicy)"},
		{name: "FailureTarget stays", job: "p=2 c=2 indexed target=PodFailurePolicy started=9", pods: "F #0, S #1", change: any1,
			want: "succeeded=1 failed=1 completed=1 released=2 FailureTarget(PodFailurePolicy) Failed(PodFailurePolicy)"},
		{name: "no success policy", job: "p=1 c=1 indexed", pods: "S #0",
			want: "succeeded=1 completed=0 released=1 SuccessCriteriaMet(CompletionsReached) Complete(CompletionsReached)"},
	})
}

// TestConditionsAndEvents checks the order of the conditions and of the events that users and their tools
// read.
func TestConditionsAndEvents(t *testing.T) {
	for _, c := range []struct{ job, pods, events, conditions string }{
		{"p=2 c=4 suspend", "2 R", "Suspended", "Suspended"},
		{"p=2 c=4 was-suspended", "", "Resumed", "Suspended"},
		{"p=1 c=1", "S", "Completed", "SuccessCriteriaMet Complete"},
		{"p=1 c=1", "2 S", "TooManySucceededPods Completed", "SuccessCriteriaMet Complete"},
		{"p=1 c=1 backoff=0", "F", "BackoffLimitExceeded", "FailureTarget Failed"},
		{"p=1 c=1 deadline=1 started=2", "", "DeadlineExceeded", "FailureTarget Failed"},
		{"p=1 c=2", "R, S", "", ""},
	} {
		s := newHarness(t, newJob(c.job), newPods(c.pods))
		s.settle()
		var conditions []string
		for _, c := range s.job.Status.Conditions {
			conditions = append(conditions, string(c.Type))
		}
		if got := strings.Join(s.events, " "); got != c.events {
			t.Errorf("%s: events %q, want %q", c.job, got, c.events)
		}
		if got := strings.Join(conditions, " "); got != c.conditions {
			t.Errorf("%s: conditions %q, want %q", c.job, got, c.conditions)
		}
		if again := s.step(); again {
			t.Errorf("%s: there is more to do", c.job)
		}
	}
}

// TestTimes checks that completionTime is the transition time of Complete, and that startTime is removed while
// a Job is suspended and set with the condition Suspended=False.
func TestTimes(t *testing.T) {
	s := newHarness(t, newJob("p=1 c=1"), nil)
	s.settle()
	if s.job.Status.StartTime == nil || !s.job.Status.StartTime.Time.Equal(noon) {
		t.Fatalf("startTime %v", s.job.Status.StartTime)
	}
	suspend := func(is bool) {
		s.now = s.now.Add(time.Minute)
		s.job = s.job.DeepCopy()
		s.job.Spec.Suspend = &is
		s.settle()
	}
	suspend(true)
	if s.job.Status.StartTime != nil {
		t.Errorf("startTime %v of a suspended Job", s.job.Status.StartTime)
	}
	suspend(false)
	if start := s.job.Status.StartTime; start == nil || !start.Time.Equal(s.now) {
		t.Errorf("startTime %v of a Job resumed at %v", start, s.now)
	}
	s.now = s.now.Add(time.Minute)
	s.pods = newPods("S")
	s.settle()
	done := trueCondition(&s.job.Status, batchv1.JobComplete)
	if done == nil || s.job.Status.CompletionTime == nil || !done.LastTransitionTime.Equal(s.job.Status.CompletionTime) || !done.LastTransitionTime.Time.Equal(s.now) {
		t.Errorf("completionTime %v, condition %v", s.job.Status.CompletionTime, done)
	}
	if !slices.Equal(s.events, []string{"Suspended", "Resumed", "Completed"}) {
		t.Errorf("events %v", s.events)
	}
}

func onCondition(action batchv1.PodFailurePolicyAction, t string) batchv1.PodFailurePolicyRule {
	t, no := strings.CutPrefix(t, "!")
	status := corev1.ConditionTrue
	if no {
		status = corev1.ConditionFalse
	}
	return batchv1.PodFailurePolicyRule{Action: action, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.PodConditionType(t), Status: status}}}
}

func onExit(action batchv1.PodFailurePolicyAction, operator batchv1.PodFailurePolicyOnExitCodesOperator, codes ...int32) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{Action: action, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: operator, Values: codes}}
}
