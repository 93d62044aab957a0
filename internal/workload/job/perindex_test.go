package job

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// TestPerIndex contains the cases of upstream's TestSyncJobWithJobBackoffLimitPerIndex.
func TestPerIndex(t *testing.T) {
	const in = batchv1.PodFailurePolicyOnExitCodesOpIn
	play(t, []played{
		{name: "success after one failure", job: "p=2 c=2 indexed perindex=1", pods: "F #0 fails=0, S #0 fails=1, S #1 fails=0",
			want: "succeeded=2 failed=1 completed=0,1 failed-indexes= released=3 SuccessCriteriaMet(CompletionsReached) Complete(CompletionsReached)"},
		{name: "a failure is not counted until the pod is replaced", job: "p=2 c=2 indexed perindex=1", pods: "F #0 fails=0 ago=1", want: "active=1 failed-indexes= created=1 [1]"},
		{name: "replaced", job: "p=2 c=2 indexed perindex=1", pods: "F #0 fails=0, P #0 fails=1", want: "active=2 failed=1 failed-indexes= created=1 [1] released=1"},
		{name: "back-off while another runs (139428)", job: "p=2 c=2 indexed perindex=1", pods: "R ready #0 fails=0, F #1 fails=0 ago=0", want: "active=1 ready=1 failed-indexes="},
		{name: "an index fails, the Job goes on", job: "p=2 c=2 indexed perindex=1", pods: "F #0 fails=1", want: "active=1 failed=1 failed-indexes=0 created=1 [1] released=1"},
		{name: "FailIndex", job: "p=2 c=2 indexed perindex=1", pods: "F #0 fails=0 exit=3", change: failurePolicy(onExit("FailIndex", in, 3)), want: "active=1 failed=1 failed-indexes=0 created=1 [1] released=1"},
		{name: "FailJob", job: "p=2 c=2 indexed perindex=1", pods: "F #0 fails=0 exit=3", change: failurePolicy(onExit("FailJob", in, 3)), want: "failed=1 failed-indexes= released=1 FailureTarget(PodFailurePolicy) Failed(PodFailurePolicy)"},
		{name: "ignored", job: "p=2 c=2 indexed perindex=0", pods: "F #0 fails=0 exit=3", change: failurePolicy(onExit("Ignore", in, 3)), want: "active=2 failed-indexes= created=2 [0,1] released=1"},
		{name: "backoffLimit precedes", job: "p=2 c=2 indexed backoff=1 perindex=1", pods: "F #0 fails=0, F #0 fails=1, F #1 fails=0",
			want: "failed=3 failed-indexes=0 released=3 FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)"},
		{name: "all have failed or succeeded", job: "p=2 c=2 indexed perindex=1", pods: "F #0 fails=1, S #1",
			want: "succeeded=1 failed=1 completed=1 failed-indexes=0 released=2 FailureTarget(FailedIndexes) Failed(FailedIndexes)"},
		{name: "too many have failed", job: "p=2 c=4 indexed perindex=1 maxfailed=1", pods: "F #0 fails=1, F #1 fails=1, R #2",
			want: "terminating=1 failed=3 failed-indexes=0,1 removed=1 released=3 FailureTarget(MaxFailedIndexesExceeded)"},
		{name: "as many failed indexes as allowed", job: "p=2 c=4 indexed perindex=0 maxfailed=2", pods: "F #0, F #1, R #2",
			want: "active=2 failed=2 failed-indexes=0,1 created=1 [3] released=2"},
		{name: "a failed index gets no other pod", job: "p=3 c=3 indexed perindex=0 failed=1 failed-indexes=0", pods: "F untracked #0, R #1", want: "active=2 failed=1 failed-indexes=0 created=1 [2]"},
	})
}

// TestLate contains the cases of upstream's TestGetPodsWithDelayedDeletionPerIndex: the UIDs of failed pods
// that keep the finalizer, because the next pod of their index must copy the number of failures.
func TestLate(t *testing.T) {
	for _, c := range []struct{ name, job, pods, want string }{
		{"of indexes that have not failed", "p=3 c=3 indexed perindex=1", "a: F #0 fails=0, b: F #1 fails=1, c: F #2 fails=0", "a c"},
		{"without finalizer", "p=2 c=2 indexed perindex=1", "a: F untracked #0 fails=0", ""},
		{"recorded", "p=2 c=2 indexed perindex=1 uncounted-failed=a", "a: F #0 fails=0", ""},
		{"index out of range", "p=2 c=2 indexed perindex=1", "a: F #4 fails=0", ""},
		{"no index", "p=2 c=2 indexed perindex=1", "a: F fails=0", ""},
		{"replaced", "p=2 c=2 indexed perindex=1", "a: F #0 fails=0, b: R #0 fails=1", ""},
		{"succeeded since", "p=2 c=2 indexed perindex=1", "a: F #0 fails=0, b: S #0 fails=1", ""},
		{"the one that failed most", "p=2 c=2 indexed perindex=4", "a1: F #0 fails=0, a3: F #0 fails=2, a2: F #0 fails=1", "a3"},
		{"ignored failures count for that", "p=2 c=2 indexed perindex=4", "a1: F #0 fails=1 ignored=3, a3: F #0 fails=2", "a1"},
		{"the last", "p=2 c=2 indexed perindex=4", "a1: F #0 fails=1 ago=3, a3: F #0 fails=1 ago=1, a2: F #0 fails=1 ago=2", "a3"},
		{"a terminating pod that has not failed yet", "p=2 c=2 indexed perindex=4 replace=Failed", "a1: F #0 fails=0, a2: R terminating #0 fails=1", "a1"},
		{"a terminating pod that counts as failed", "p=2 c=2 indexed perindex=4", "a1: F #0 fails=0, a2: R terminating #0 fails=1", "a2"},
		{"the Job fails", "p=2 c=2 indexed perindex=4 target=X started=9", "a: F #0 fails=0, R #1", ""},
		{"the Job is being deleted", "p=2 c=2 indexed perindex=4 deleting", "a: F #0 fails=0", ""},
		{"no limit by index", "p=2 c=2 indexed", "a: F #0", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := newJob(c.job)
			p := &plan{State: State{Job: j, Pods: newPods(c.pods), Limits: atOnce()}, now: noon, job: j}
			p.read()
			var late []string
			for _, pod := range p.lastFailed {
				if p.isLastFailed(pod) {
					late = append(late, string(pod.UID))
				}
			}
			slices.Sort(late)
			if got := strings.Join(late, " "); got != c.want {
				t.Errorf("late: %q, want %q", got, c.want)
			}
		})
	}
}

// TestFailureCounts contains the cases of upstream's TestGetNewIndexFailureCountValue and
// TestGetIndexFailureCount: the annotations of the pod that replaces a failed one.
func TestFailureCounts(t *testing.T) {
	for _, c := range []struct{ before, want string }{
		{"", "0 and 0"},
		{"F #0 fails=0", "1 and 0"},
		{"F #0 fails=3", "4 and 0"},
		{"F #0 fails=3 cond=DisruptionTarget", "3 and 1"},
		{"F #0 fails=3 ignored=2 cond=DisruptionTarget", "3 and 3"},
		{"F #0", "1 and 0"},
		{"F #0 fails=x", "1 and 0"},
		{"F #0 fails=-1", "1 and 0"},
		{"F #0 fails=2147483648", "1 and 0"},
		{"F #0 fails=2147483647", "2147483647 and 0"},
	} {
		j := newJob("p=1 c=1 indexed perindex=9", failurePolicy(onCondition("Ignore", "DisruptionTarget")))
		var before *corev1.Pod
		if c.before != "" {
			before = newPod(0, c.before)
		}
		pod := podFrom(j, "next", 0, before)
		counted, ignored := indexFailures(pod)
		if got := fmt.Sprintf("%d and %d", counted, ignored); got != c.want {
			t.Errorf("after %q: %s, want %s", c.before, got, c.want)
		}
		if _, annotated := pod.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation]; annotated != (ignored > 0) {
			t.Errorf("after %q: annotation of ignored failures: %t", c.before, annotated)
		}
	}
}

// TestIndexesWaitAlone checks that each index waits for its own back-off and not for that of another.
func TestIndexesWaitAlone(t *testing.T) {
	s := newHarness(t, newJob("p=4 c=4 indexed perindex=6"), newPods("F #0 fails=2 ago=3, F #1 fails=0 ago=3, F #2 fails=1 ignored=1 ago=50"))
	s.settle()
	// 40 s after three failures, 10 s after one.
	if got, want := s.String(), "active=2 failed=1 failed-indexes= created=2 [2,3] released=1"; got != want {
		t.Errorf("at once: %s, want %s", got, want)
	}
	if s.last.Wake != 7*time.Second {
		t.Errorf("wakes in %s, index 1 is due in 7s", s.last.Wake)
	}
	s.now = s.now.Add(7 * time.Second)
	s.settle()
	if slices.Sort(s.indexes); !slices.Equal(s.indexes, []int{1, 2, 3}) || s.last.Wake != 30*time.Second {
		t.Errorf("after 7s: %v, wakes in %s", s.indexes, s.last.Wake)
	}
	s.now = s.now.Add(30 * time.Second)
	s.settle()
	if got, want := s.String(), "active=4 failed=3 failed-indexes= created=4 [0,1,2,3] released=3"; got != want {
		t.Errorf("in the end: %s, want %s", got, want)
	}
	for _, pod := range s.pods {
		if counted, ignored := indexFailures(pod); isActive(pod) && fmt.Sprint(counted, ignored) != []string{"3 0", "1 0", "2 1", "0 0"}[completionIndex(pod)] {
			t.Errorf("index %d says %d failures and %d ignored", completionIndex(pod), counted, ignored)
		}
	}
}
