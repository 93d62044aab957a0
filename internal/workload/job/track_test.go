package job

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
)

// phases returns what the plan of each phase does, for pods in words: what the status records, how many pods
// are released, how many are counted. Upstream's TestTrackJobStatusAndRemoveFinalizers expects it of one sync
// that does all three.
func phases(t *testing.T, job, pods string) (got []string) {
	t.Helper()
	s := newHarness(t, newJob(job), newPods(pods))
	for range 10 {
		before := s.released
		more := s.step()
		u := s.job.Status.UncountedTerminatedPods
		got = append(got, fmt.Sprintf("s%v f%v released %d counted %d/%d", u.Succeeded, u.Failed, s.released-before, s.job.Status.Succeeded, s.job.Status.Failed))
		if !more {
			return got[:len(got)-1]
		}
	}
	t.Fatal("the Job has not settled")
	return nil
}

func TestPhases(t *testing.T) {
	for _, c := range []struct {
		name, job, pods string
		want            []string
	}{
		{"finished pods", "p=0", "a: S, b: F, c: S terminating, d: F terminating, e: P terminating, x: S untracked", []string{
			"s[a c] f[b d e] released 0 counted 0/0",
			"s[a c] f[b d e] released 5 counted 0/0",
			"s[] f[] released 0 counted 2/3",
		}},
		{"recorded before and new", "p=0 succeeded=2 failed=3 uncounted-succeeded=a,e uncounted-failed=b,f",
			"e: S untracked, F untracked, a: S, b: F, c: S, d: F", []string{
				// e and f have no finalizer any more.
				"s[a c] f[b d] released 2 counted 3/4",
				"s[c] f[d] released 2 counted 4/5",
				"s[] f[] released 0 counted 5/6",
			}},
		{"a record is kept while the pod has the finalizer", "p=0 uncounted-succeeded=a", "a: S", []string{
			"s[a] f[] released 1 counted 0/0",
			"s[] f[] released 0 counted 1/0",
		}},
		{"the pod is gone", "p=0 uncounted-succeeded=a uncounted-failed=b", "", []string{
			"s[] f[] released 0 counted 1/1",
		}},
		{"failed, then succeeded (125410)", "p=2 c=2 target=X uncounted-failed=a,b started=9", "a: F, b: S", []string{
			"s[] f[a b] released 2 counted 0/0",
			"s[] f[] released 0 counted 0/2",
		}},
		{"an indexed success is recorded by its index", "p=0 c=6 indexed", "a: S #1, b: S #3, c: S #3, d: S", []string{
			"s[] f[] released 1 counted 2/0",
			"s[] f[] released 3 counted 2/0",
		}},
		{"indexed failures are recorded by UID", "p=0 c=6 indexed", "a: F #1, b: F #3, c: F #3, d: F", []string{
			"s[] f[a b c] released 1 counted 0/0",
			"s[] f[a b c] released 3 counted 0/0",
			"s[] f[] released 0 counted 0/3",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := phases(t, c.job, c.pods); strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestTrack(t *testing.T) {
	play(t, []played{
		{name: "success policy", job: "p=3 c=3 indexed met=SuccessPolicy started=9", pods: "S #0, F #1, P #2",
			want: "terminating=1 succeeded=1 failed=1 completed=0 removed=1 released=2 SuccessCriteriaMet(SuccessPolicy)"},
		{name: "success policy, nothing left to end", job: "p=3 c=3 indexed met=SuccessPolicy started=9", pods: "S #0, F #1",
			want: "succeeded=1 failed=1 completed=0 released=2 SuccessCriteriaMet(SuccessPolicy) Complete(SuccessPolicy)"},
		{name: "failing: a running pod is a failure", job: "p=3 c=3 target=X started=9", pods: "S, F, R",
			want: "terminating=1 succeeded=1 failed=2 removed=1 released=3 FailureTarget(X)"},
		{name: "being deleted: a running pod is not a failure", job: "p=3 c=3 deleting", pods: "S, F, R",
			want: "active=1 succeeded=1 failed=1 released=3"},
		{name: "failed and recorded", job: "p=1 c=1 target=X uncounted-failed=a started=9", pods: "a: F",
			want: "failed=1 released=1 FailureTarget(X) Failed(X)"},
		{name: "a failed Job waits for terminating pods", job: "p=1 c=1 target=X uncounted-failed=a started=9", pods: "a: R terminating untracked",
			want: "terminating=1 failed=1 FailureTarget(X)"},
		{name: "a successful Job waits for terminating pods", job: "p=1 c=1 met=X uncounted-failed=a uncounted-succeeded=b started=9", pods: "a: R terminating untracked",
			want: "terminating=1 succeeded=1 failed=1 SuccessCriteriaMet(X)"},
		{name: "completed indexes out of range", job: "p=2 c=2 indexed succeeded=1 completed=3", pods: "R #0, R #1", want: "active=2"},
		{name: "one more in range", job: "p=2 c=2 indexed succeeded=1 completed=3", pods: "R #0, S #1",
			want: "active=1 succeeded=1 completed=1 released=1"},
		{name: "completed before and new indexes", job: "p=0 c=7 indexed failed=2 succeeded=5 completed=0-2,4,6,7",
			pods: "S untracked #0, F untracked #1, S #1, S #3, F #2, F #5", want: "succeeded=6 failed=4 completed=0-4,6 released=4"},
		{name: "an index that succeeds does not fail", job: "p=2 c=2 indexed perindex=0", pods: "F #0, S #0, R #1",
			want: "active=1 succeeded=1 failed=1 completed=0 failed-indexes= released=2"},
		{name: "an index that has failed does not succeed", job: "p=2 c=2 indexed perindex=0 failed=1 failed-indexes=0", pods: "S #0, R #1",
			want: "active=1 failed=1 failed-indexes=0 released=1"},
	})
}

// TestUncountedIsBounded checks that the status has at most the maximal number of UIDs, that other pods keep
// the finalizer and are recorded later, and that the Job does not end before.
func TestUncountedIsBounded(t *testing.T) {
	s := newHarness(t, newJob("p=2 c=503 uncounted-failed=a,b"), append(newPods("501 S"), newPod(900, "b: F")))
	s.limits.Uncounted = 500
	s.step()
	if u := s.job.Status.UncountedTerminatedPods; len(u.Succeeded) != 499 || len(u.Failed) != 1 || s.job.Status.Failed != 1 {
		t.Errorf("%d and %d are recorded, %d failures counted", len(u.Succeeded), len(u.Failed), s.job.Status.Failed)
	}
	s.settle()
	if got, want := s.String(), "active=2 succeeded=501 failed=2 created=2 released=502"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}

	s = newHarness(t, newJob("p=2 c=501 indexed"), nil)
	for i := range 501 {
		s.pods = append(s.pods, newPod(i, fmt.Sprintf("S #%d", i)))
	}
	s.settle()
	if got, want := s.String(), "succeeded=501 completed=0-500 released=501 SuccessCriteriaMet(CompletionsReached) Complete(CompletionsReached)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestNothingIsDecidedTwice checks that a plan that decides the end neither creates nor removes a pod, and
// that the next plan, whose Job shows the decision, removes pods.
func TestNothingIsDecidedTwice(t *testing.T) {
	for _, c := range []struct {
		job, pods string
		t         batchv1.JobConditionType
	}{
		{"p=2 c=3 backoff=0", "2 R, F", batchv1.JobFailureTarget},
		{"p=1 c=1 deadline=5 started=6", "2 R", batchv1.JobFailureTarget},
		{"p=2 c=2 indexed perindex=0", "F #0, F #1, R #1", batchv1.JobFailureTarget},
	} {
		s := newHarness(t, newJob(c.job), newPods(c.pods))
		s.step()
		if trueCondition(&s.job.Status, c.t) == nil || s.created+s.removed+s.released > 0 {
			t.Errorf("%s: %s after one plan", c.job, s)
		}
		s.step()
		if s.removed == 0 || Ended(s.job) {
			t.Errorf("%s: %s after two plans", c.job, s)
		}
	}
}

// TestUnfinishedAreReleasedExactly checks that an unfinished pod that does not count is released only in the
// observed version, because it may have succeeded since. A pod that is recorded, or whose Job is being
// deleted, may have changed.
func TestUnfinishedAreReleasedExactly(t *testing.T) {
	ignored := failurePolicy(onCondition("Ignore", "DisruptionTarget"))
	for _, c := range []struct {
		job, pod string
		exact    bool
	}{
		{"p=1 c=1 target=X started=9", "a: R terminating cond=DisruptionTarget", true},
		{"p=1 c=1 met=X started=9", "a: R terminating", true},
		{"p=1 c=1 target=X started=9", "a: F cond=DisruptionTarget", false},
		{"p=1 c=1 target=X started=9 uncounted-failed=a", "a: R terminating", false},
		{"p=1 c=1 deleting", "a: R", false},
	} {
		d := Plan(noon, State{Job: newJob(c.job, ignored), Pods: newPods(c.pod), Limits: atOnce()})
		if len(d.Actions) != 1 || d.Actions[0].Exact != c.exact || strings.Contains(string(d.Actions[0].Body()), `"resourceVersion":"7"`) != c.exact {
			t.Errorf("%s: %s: %+v", c.job, c.pod, d.Actions)
		}
	}
}

// TestNoFinalizerAtTheEnd checks that a Job ends only after it has released all its pods.
func TestNoFinalizerAtTheEnd(t *testing.T) {
	for _, c := range [][2]string{{"p=1 c=1 indexed", "S #0"}, {"p=1 c=1", "S"}, {"p=1 c=1 backoff=0", "F"}, {"p=2 c=1", "S, F"}} {
		s := newHarness(t, newJob(c[0]), newPods(c[1]))
		for s.step() {
			for _, p := range s.pods {
				if Ended(s.job) && hasFinalizer(p) {
					t.Errorf("%s: %s: it ended while a pod still has the finalizer", c[0], c[1])
				}
			}
		}
	}
}
