package job

import (
	"strconv"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"
)

// successPolicy builds a policy from words: INDEXES/COUNT for each rule; either may be left out.
func successPolicy(rules ...string) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{}
		for _, text := range rules {
			var rule batchv1.SuccessPolicyRule
			indexes, count, _ := strings.Cut(text, "/")
			if indexes != "" {
				rule.SucceededIndexes = &indexes
			}
			if n, err := strconv.Atoi(count); err == nil {
				rule.SucceededCount = ptr.To(int32(n))
			}
			j.Spec.SuccessPolicy.Rules = append(j.Spec.SuccessPolicy.Rules, rule)
		}
	}
}

// TestMatchSuccess contains the cases of upstream's TestMatchSuccessPolicy.
func TestMatchSuccess(t *testing.T) {
	for _, c := range []struct{ rules, succeeded, want string }{
		{"", "0", ""},
		{"invalid", "0", ""},
		{"0,1", "0,1", "0"},
		{"0-9", "0-4,6-9", ""},
		{"0-2/2", "0-1,4", "0"},
		{"/2", "3,6", "0"},
		{"/2", "3", ""},
		{"9 1-3", "1-3", "1"},
		{"9 0-3", "9", "0"},
		{"4,6 1-3", "1-6", "0"},
		{"0-4/3", "0-2", "0"},
		{"0-4/3", "0,1,7", ""},
		{"0-4", "", ""},
		{"/1", "", ""},
		{"0-4", "0-9", "0"},
		{"0-4", "5-9", ""},
		{"0-5", "3-8", ""},
		{"0-5/2", "3-8", "0"},
		{"3-8", "0-5", ""},
		{"3-8/3", "0-5", "0"},
		{"2-8", "4-6", ""},
		{"2-8/3", "4-6", "0"},
		{"1,3-5,8", "0-9", "0"},
		{"1-4,6-8", "2-4,6-8", ""},
		{"1-4,6-8/6", "2-4,6-8", "0"},
		{"0-12", "0-9", "0"}, // indexes beyond completions cannot be required
		{"12", "0-9", ""},
	} {
		j := newJob("p=1 c=10 indexed", successPolicy(strings.Fields(c.rules)...))
		succeeded, err := ParseIndexes(c.succeeded, 10)
		if err != nil {
			t.Fatal(err)
		}
		want := c.want
		if want != "" {
			want = "Matched rules at index " + want
		}
		if got := matchSuccess(j, succeeded); got != want {
			t.Errorf("rules %q, succeeded %s: %q, want %q", c.rules, c.succeeded, got, want)
		}
	}
	if got := matchSuccess(newJob("c=1 indexed"), Indexes{{0, 0}}); got != "" {
		t.Errorf("no policy: %q", got)
	}
}

// TestHandle contains the cases of upstream's TestMatchPodFailurePolicy: ACTION, or ACTION and its message.
func TestHandle(t *testing.T) {
	const (
		ignore, count      = batchv1.PodFailurePolicyActionIgnore, batchv1.PodFailurePolicyActionCount
		failJob, failIndex = batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionFailIndex
		in, notIn          = batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn
	)
	of := func(name string, r batchv1.PodFailurePolicyRule) batchv1.PodFailurePolicyRule {
		r.OnExitCodes.ContainerName = &name
		return r
	}
	type rules = []batchv1.PodFailurePolicyRule
	for _, c := range []struct {
		name  string
		rules rules
		pod   string
		want  string
	}{
		{"no rules", nil, "F exit=1", ""},
		{"unknown action, exit code", rules{onExit("Future", in, 1), onExit(failJob, in, 1)}, "F exit=1",
			"FailJob Container main for pod default/pod-0000 failed with exit code 1 matching FailJob rule at index 1"},
		{"unknown action, condition", rules{onCondition("Future", "Broken"), onCondition(ignore, "Broken")}, "F cond=Broken", "Ignore"},
		{"unknown operator", rules{onExit(ignore, "Future", 1), onExit(failIndex, in, 1)}, "F exit=1", "FailIndex"},
		{"ignored", rules{onExit(ignore, in, 1, 2)}, "F exit=2", "Ignore"},
		{"below zero (Windows)", rules{onExit(ignore, in, -1)}, "F exit=-1", "Ignore"},
		{"fails the Job", rules{onExit(failJob, in, 2)}, "F exit=2",
			"FailJob Container main for pod default/pod-0000 failed with exit code 2 matching FailJob rule at index 0"},
		{"exit code zero is not a failure", rules{onExit(failJob, notIn, 5)}, "F exit=0", ""},
		{"the container that failed", rules{onExit(failIndex, notIn, 5)}, "F exit=0 exit=3", "FailIndex"},
		{"NotIn", rules{onExit(ignore, notIn, 5)}, "F exit=5", ""},
		{"second rule", rules{onExit(ignore, in, 1), onExit(failJob, in, 6)}, "F exit=6",
			"FailJob Container main for pod default/pod-0000 failed with exit code 6 matching FailJob rule at index 1"},
		{"the first rule of two", rules{onExit(count, in, 6), onExit(failJob, in, 6)}, "F exit=6", "Count"},
		{"another container", rules{of("other", onExit(ignore, in, 1))}, "F exit=1", ""},
		{"this container", rules{of("main", onExit(ignore, in, 1))}, "F exit=1", "Ignore"},
		{"init container", rules{onExit(ignore, in, 1)}, "F init-exit=1", "Ignore"},
		{"containers precede init containers", rules{onExit(failJob, in, 1, 2)}, "F init-exit=1 exit=2",
			"FailJob Container main for pod default/pod-0000 failed with exit code 2 matching FailJob rule at index 0"},
		{"condition, index", rules{onCondition(failIndex, "DisruptionTarget")}, "F cond=DisruptionTarget", "FailIndex"},
		{"condition, ignored", rules{onCondition(ignore, "DisruptionTarget")}, "F cond=DisruptionTarget", "Ignore"},
		{"condition that is false", rules{onCondition(ignore, "!Healthy")}, "F cond=!Healthy", "Ignore"},
		{"want False, is True", rules{onCondition(ignore, "!Healthy")}, "F cond=Healthy", ""},
		{"want True, is False", rules{onCondition(ignore, "DisruptionTarget")}, "F cond=!DisruptionTarget", ""},
		{"condition, job", rules{onCondition(failJob, "DisruptionTarget")}, "F cond=DisruptionTarget",
			"FailJob Pod default/pod-0000 has condition DisruptionTarget matching FailJob rule at index 0"},
		{"condition, counts", rules{onCondition(count, "DisruptionTarget"), onCondition(failJob, "DisruptionTarget")}, "F cond=DisruptionTarget", "Count"},
		{"no rule matches", rules{onCondition(count, "DisruptionTarget"), onExit(ignore, in, 9)}, "F exit=8", ""},
		{"a container that has not ended", rules{onExit(ignore, notIn, 9)}, "F restarts=1", ""},
	} {
		h := handle(&batchv1.PodFailurePolicy{Rules: c.rules}, newPod(0, c.pod))
		got := string(h.action)
		if h.failJob != "" {
			got += " " + h.failJob
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if h.counts() != (h.action != ignore) {
			t.Errorf("%s: counts: %t", c.name, h.counts())
		}
	}
	if h := handle(nil, newPod(0, "F")); h.action != "" || !h.counts() {
		t.Errorf("no policy: %+v", h)
	}
}

// TestFailurePolicySync contains the cases of upstream's TestSyncJobWithJobPodFailurePolicy.
func TestFailurePolicySync(t *testing.T) {
	const in, notIn = batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn
	codes := failurePolicy(onExit("Ignore", in, 1, 2, 3), onExit("FailJob", in, 5, 6, 7))
	disruption := failurePolicy(onCondition("Ignore", "DisruptionTarget"))
	fails := "FailureTarget(PodFailurePolicy)"
	play(t, []played{
		{name: "a running pod fails nothing", job: "p=1 c=1", pods: "R exit=5", change: codes, want: "active=1"},
		{name: "fails the Job", job: "p=1 c=1", pods: "F exit=5", change: codes, want: "failed=1 released=1 " + fails + " Failed(PodFailurePolicy)"},
		{name: "failing already", job: "p=1 c=1 target=PodFailurePolicy started=9", pods: "F exit=5", change: codes, want: "failed=1 released=1 " + fails + " Failed(PodFailurePolicy)"},
		{name: "failing already, the pod is gone", job: "p=1 c=1 target=PodFailurePolicy started=9 failed=1", change: codes, want: "failed=1 " + fails + " Failed(PodFailurePolicy)"},
		{name: "others run", job: "p=2 c=2", pods: "R, F exit=5", change: codes, want: "terminating=1 failed=2 removed=1 released=2 " + fails},
		{name: "a pod without finalizer fails the Job too", job: "p=2 c=2", pods: "R, F untracked exit=5", change: codes, want: "terminating=1 failed=1 removed=1 released=1 " + fails},
		{name: "indexed", job: "p=2 c=2 indexed", pods: "R #1, F #0 exit=5", change: codes, want: "terminating=1 failed=2 removed=1 released=2 " + fails},
		{name: "NotIn", job: "p=1 c=1", pods: "F exit=42", change: failurePolicy(onExit("FailJob", notIn, 5)), want: "failed=1 released=1 " + fails + " Failed(PodFailurePolicy)"},
		{name: "NotIn, in", job: "p=1 c=1", pods: "F exit=5", change: failurePolicy(onExit("FailJob", notIn, 5)), want: "active=1 failed=1 created=1 released=1"},
		{name: "ignored, the first rule", job: "p=1 c=1 backoff=0", pods: "F exit=2", change: failurePolicy(onExit("Ignore", in, 2), onExit("FailJob", in, 2)), want: "active=1 created=1 released=1"},
		{name: "ignored", job: "p=1 c=1 backoff=0", pods: "F exit=2", change: codes, want: "active=1 created=1 released=1"},
		{name: "no rule matches", job: "p=1 c=1 backoff=0", pods: "F exit=10", change: codes, want: "failed=1 released=1 FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)"},
		{name: "counts, the first rule", job: "p=1 c=1 backoff=0", pods: "F exit=2", change: failurePolicy(onExit("Count", in, 2), onExit("Ignore", in, 2)), want: "failed=1 released=1 FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)"},
		{name: "ignored by condition", job: "p=1 c=1 backoff=0", pods: "F cond=DisruptionTarget", change: disruption, want: "active=1 created=1 released=1"},
		{name: "ignored failures delay too", job: "p=1 c=1 backoff=0", pods: "F cond=DisruptionTarget ago=1", change: disruption, want: "released=1"},
		{name: "a terminating pod has not failed", job: "p=1 c=1", pods: "R terminating cond=DisruptionTarget", change: failurePolicy(onCondition("FailJob", "DisruptionTarget")), want: "terminating=1"},
		{name: "a terminating pod that has failed is ignored", job: "p=1 c=1 backoff=0", pods: "F terminating cond=DisruptionTarget", change: disruption, want: "active=1 created=1 released=1"},
	})
}
