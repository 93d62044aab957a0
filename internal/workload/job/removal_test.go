package job

import (
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// TestRemovalMark checks that a pod that is removed gets the mark, unless it is counted already or its Job has
// ended, and that releasing a pod removes its mark.
func TestRemovalMark(t *testing.T) {
	for name, c := range map[string]struct {
		job, pods     string
		ended, marked bool
	}{
		"too many":                   {job: "p=1 c=5", pods: "R ready, R", marked: true},
		"suspended":                  {job: "p=1 c=5 suspend", pods: "R", marked: true},
		"the Job has succeeded":      {job: "p=1 c=1 met=X started=9 succeeded=1", pods: "R", marked: true},
		"recorded, and active again": {job: "p=1 c=5 suspend uncounted-succeeded=a", pods: "a: R"},
		"the Job has ended":          {job: "p=1 c=1 met=X started=9 succeeded=1", pods: "R", ended: true},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(c.job)
			if c.ended {
				j.Status.Conditions = append(j.Status.Conditions, condition("Complete", "X", ""))
			}
			d := Plan(noon, State{Job: j, Pods: newPods(c.pods), Limits: atOnce()})
			if len(d.Actions) != 1 {
				t.Fatalf("%d actions: %+v", len(d.Actions), d.Reasons)
			}
			a := d.Actions[0]
			if !a.Exact || a.Then == nil || a.Then.Verb != workload.Delete || !a.Then.Exact {
				t.Errorf("%s, exact: %t, then %+v", a.Verb, a.Exact, a.Then)
			}
			if body := string(a.Body()); strings.Contains(body, removalAnnotation) != c.marked {
				t.Errorf("patch %s", body)
			}
		})
	}
	d := Plan(noon, State{Job: newJob("p=1 c=5 uncounted-succeeded=a"), Pods: newPods("a: S marked, R"), Limits: atOnce()})
	if len(d.Actions) != 1 || !strings.Contains(string(d.Actions[0].Body()), removalAnnotation+`":null`) {
		t.Errorf("release: %+v", d.Actions)
	}
}

// TestFinishedBeforeDelete checks that a pod that finished between the two writes of its removal gets its
// finalizer back and is counted. A pod that finished because it was deleted is not counted, and neither is a
// pod whose Job has ended.
func TestFinishedBeforeDelete(t *testing.T) {
	for name, c := range map[string]struct {
		job, pods, want string
	}{
		"succeeded":              {"p=1 c=1", "S untracked marked", "succeeded=1 released=1 SuccessCriteriaMet(CompletionsReached) Complete(CompletionsReached)"},
		"failed":                 {"p=1 c=1 backoff=0", "F untracked marked", "failed=1 released=1 FailureTarget(BackoffLimitExceeded) Failed(BackoffLimitExceeded)"},
		"of an index":            {"p=1 c=1 indexed", "S #0 untracked marked", "succeeded=1 completed=0 released=1 SuccessCriteriaMet(CompletionsReached) Complete(CompletionsReached)"},
		"suspended meanwhile":    {"p=1 c=2 suspend", "S untracked marked", "succeeded=1 released=1 Suspended(JobSuspended)"},
		"deleted, then finished": {"p=1 c=1 suspend", "S untracked marked terminating", "Suspended(JobSuspended)"},
		"counted already":        {"p=1 c=2 suspend succeeded=1", "S untracked", "succeeded=1 Suspended(JobSuspended)"},
		"the Job is deleted":     {"p=1 c=1 deleting", "S untracked marked", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHarness(t, newJob(c.job), newPods(c.pods))
			s.settle()
			if got := s.String(); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// TestRemovalIsFinished checks that the next pod to be removed is one whose removal has begun, even if other
// pods now precede it in removal order: its patch may have been answered 504 and be in effect.
func TestRemovalIsFinished(t *testing.T) {
	pods := newPods("P, R ready node untracked marked, R")
	d := Plan(noon, State{Job: newJob("p=2 c=5"), Pods: pods, Limits: atOnce()})
	if len(d.Actions) != 1 || d.Actions[0].Object.GetName() != pods[1].Name || d.Actions[0].Verb != workload.Delete || !d.Actions[0].Exact {
		t.Errorf("%+v", d.Actions)
	}
}
