package job

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
)

// played is a case in words: the Job and its pods, and their state after plans were made until nothing is left
// to do.
type played struct {
	name, job, pods string
	change          func(*batchv1.Job)
	want            string
}

func play(t *testing.T, cases []played) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			change := c.change
			if change == nil {
				change = func(*batchv1.Job) {}
			}
			s := newHarness(t, newJob(c.job, change), newPods(c.pods))
			s.settle()
			if got := s.String(); got != c.want {
				t.Errorf("job %s\npods %s\n got %s\nwant %s", c.job, c.pods, got, c.want)
			}
		})
	}
}

// TestSync contains the cases of upstream's TestControllerSyncJob in other words. Where upstream's sync ends
// before the steady state, because nothing changes the pods, so does the case.
func TestSync(t *testing.T) {
	play(t, []played{
		{name: "job start", job: "p=2 c=5", want: "active=2 created=2"},
		{name: "work queue start", job: "p=2", want: "active=2 created=2"},
		{name: "pending pods", job: "p=2 c=5", pods: "2 P", want: "active=2"},
		{name: "the right number", job: "p=3 c=5", pods: "2 R ready, R", want: "active=3 ready=2"},
		{name: "work queue, the right number", job: "p=2", pods: "2 R", want: "active=2"},
		{name: "too few", job: "p=2 c=5", pods: "R, S", want: "active=2 succeeded=1 created=1 released=1"},
		{name: "work queue, one active", job: "p=2", pods: "R", want: "active=2 created=1"},
		{name: "work queue, replaces only failed pods", job: "p=1 replace=Failed", pods: "R, F, R terminating", want: "active=1 terminating=1 failed=1 released=1"},
		{name: "replacement policy not set", job: "p=1 c=1", pods: "R, F, R terminating", want: "active=1 terminating=1 failed=2 released=2"},
		{name: "work queue, replaces terminating pods", job: "p=1 replace=TerminatingOrFailed", pods: "R, F, R terminating", want: "active=1 terminating=1 failed=2 released=2"},
		{name: "more pods terminate than are wanted", job: "p=1 c=1 replace=Failed", pods: "2 R, 4 R terminating", want: "active=1 terminating=5 removed=1"},
		{name: "more pods terminate than are wanted, failure policy", job: "p=1 c=1", pods: "2 R, 4 R terminating", change: failurePolicy(), want: "active=1 terminating=5 removed=1"},
		{name: "back-off", job: "p=1 c=1 failed=1 started=9", pods: "F untracked ago=1", want: "failed=1"},
		{name: "back-off with running pods (139428)", job: "p=2 c=2 failed=1 started=9", pods: "R ready, F untracked ago=1", want: "active=1 ready=1 failed=1"},
		{name: "back-off is over", job: "p=1 c=1 failed=1", pods: "F untracked ago=11", want: "active=1 failed=1 created=1"},
		{name: "too many", job: "p=2 c=5", pods: "3 R", want: "active=2 terminating=1 removed=1"},
		{name: "too many, all ready", job: "p=2 c=5", pods: "3 R ready", want: "active=2 ready=2 terminating=1 removed=1"},
		{name: "a success resets the failures", job: "p=2 c=5", pods: "R, S ago=1, F ago=2", want: "active=2 succeeded=1 failed=1 created=1 released=2"},
		{name: "new failure", job: "p=2 c=5", pods: "R, F", want: "active=2 failed=1 created=1 released=1"},
		{name: "nothing new", job: "p=1 c=1 failed=1", pods: "R", want: "active=1 failed=1"},
		{name: "finish", job: "p=2 c=5", pods: "5 S", want: "succeeded=5 released=5 SuccessCriteriaMet(CompletionsReached) Complete(CompletionsReached)"},
		{name: "work queue finishing", job: "p=2", pods: "R, S", want: "active=1 succeeded=1 released=1"},
		{name: "work queue, all finished", job: "p=2", pods: "2 S", want: "succeeded=2 released=2 SuccessCriteriaMet(CompletionsReached) Complete(CompletionsReached)"},
		{name: "work queue, despite one failure", job: "p=2", pods: "S, F", want: "succeeded=1 failed=1 released=2 SuccessCriteriaMet(CompletionsReached) Complete(CompletionsReached)"},
		{name: "many more than parallelism", job: "p=2 c=5", pods: "10 R", want: "active=2 terminating=8 removed=8"},
		{name: "more than are left to complete", job: "p=3 c=4", pods: "3 R, 2 S", want: "active=2 terminating=1 succeeded=2 removed=1 released=2"},
		{name: "status change", job: "p=2 c=5", pods: "2 R, 2 S", want: "active=2 succeeded=2 released=2"},
		{name: "deleting", job: "p=2 c=5 deleting", pods: "P, R, S", want: "active=2 succeeded=1 released=3"},
		{name: "too many failures", job: "p=2 c=5 backoff=0 deleting", pods: "F", want: "failed=1 released=1 FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)"},
		{name: "all removed with no completions left", job: "p=0 c=5", pods: "2 R", want: "terminating=2 removed=2"},

		{name: "indexed start", job: "p=2 c=5 indexed", want: "active=2 created=2 [0,1]"},
		{name: "indexed, waits for terminating pods", job: "p=2 c=5 indexed replace=Failed", pods: "R terminating", want: "active=1 terminating=1 created=1 [0]"},
		{name: "indexed, waits for the index of a terminating pod", job: "p=2 c=5 indexed replace=Failed", pods: "R terminating #0", want: "active=1 terminating=1 created=1 [1]"},
		{name: "indexed, replaces terminating pods", job: "p=2 c=5 indexed replace=TerminatingOrFailed", pods: "R terminating", want: "active=2 terminating=1 created=2 [0,1] released=1"},
		{name: "indexed completed", job: "p=2 c=3 indexed", pods: "S #0, F #1, S #1, S #2", want: "succeeded=3 failed=1 completed=0-2 released=4 SuccessCriteriaMet(CompletionsReached) Complete(CompletionsReached)"},
		{name: "indexed failed", job: "p=2 c=3 backoff=0 indexed", pods: "S #0, F #1, R #2", want: "terminating=1 succeeded=1 failed=2 completed=0 removed=1 released=3 FailureTarget(BackoffLimitExceeded)"},
		{name: "indexed, completed twice", job: "p=2 c=3 indexed", pods: "S #0, S #1, S #1", want: "active=1 succeeded=2 completed=0,1 created=1 [2] released=3"},
		{name: "indexed, some running, some completed", job: "p=8 c=20 indexed", pods: "R #0, S #2, P #3, S #4, S #5, S #7, S #8, S #9", want: "active=8 succeeded=6 completed=2,4,5,7-9 created=6 [1,6,10,11,12,13] released=6"},
		{name: "indexed, some failed", job: "p=3 c=4 indexed", pods: "F #0, P #1, F #2", want: "active=3 failed=2 created=2 [0,2] released=2"},
		{name: "indexed, no indexes", job: "p=2 c=5 indexed", pods: "R, S, F, R #x, S #x, F #x, P #x, S #0, R #1, R #2", want: "active=2 terminating=3 succeeded=1 completed=0 removed=3 released=5"},
		{name: "indexed, repeated", job: "p=5 c=5 indexed", pods: "S, F, R #x, S #0, R #1, R #2, P #2", want: "active=4 terminating=2 succeeded=1 completed=0 created=2 [3,4] removed=2 released=3"},
		{name: "indexed, out of range", job: "p=2 c=5 indexed", pods: "S #0, R #5, S #6, P #7, F #8", want: "active=2 terminating=2 succeeded=1 completed=0 created=2 [1,2] removed=2 released=3"},

		{name: "suspending", job: "p=2 c=4 suspend", pods: "2 R", want: "terminating=2 removed=2 Suspended(JobSuspended)"},
		{name: "suspending, all ready", job: "p=2 c=4 suspend", pods: "2 R ready", want: "terminating=2 removed=2 Suspended(JobSuspended)"},
		{name: "resuming", job: "p=2 c=4 was-suspended", want: "active=2 created=2 Suspended=False(JobResumed)"},
		{name: "suspending while it is deleted", job: "p=2 c=4 suspend deleting", pods: "2 R", want: "active=2 released=2"},
		{name: "no completions", job: "p=1 c=0", want: "SuccessCriteriaMet(CompletionsReached) Complete(CompletionsReached)"},
		{name: "no completions, suspended", job: "p=1 c=0 suspend", want: "SuccessCriteriaMet(CompletionsReached) Complete(CompletionsReached)"},
		{name: "suspended and complete", job: "p=2 c=2 suspend", pods: "2 S", want: "succeeded=2 released=2 SuccessCriteriaMet(CompletionsReached) Complete(CompletionsReached)"},

		{name: "FailureTarget=False has no effect", job: "p=1 c=1", pods: "R ready", change: withFalse(batchv1.JobFailureTarget), want: "active=1 ready=1 FailureTarget=False(ByHand)"},
		{name: "SuccessCriteriaMet=False has no effect", job: "p=1 c=1", pods: "R ready", change: withFalse(batchv1.JobSuccessCriteriaMet), want: "active=1 ready=1 SuccessCriteriaMet=False(ByHand)"},
		{name: "all ready when it fails", job: "p=2 c=3 backoff=0", pods: "2 R ready, F", want: "terminating=2 failed=3 removed=2 released=3 FailureTarget(BackoffLimitExceeded)"},
	})
}

func withFalse(t batchv1.JobConditionType) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: t, Status: "False", Reason: "ByHand"})
	}
}

// failurePolicy sets a pod failure policy of some rules.
func failurePolicy(rules ...batchv1.PodFailurePolicyRule) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: rules} }
}
