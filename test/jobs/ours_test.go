package jobs_test

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/controller/jobs"
	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
)

var ours = jobs.Runner(jobs.Options{All: true, Workers: 1, Writes: 1, Audit: -1})

// oneLeader are all legal faults but one: two instances at once, which leader election
// is there to prevent.
func oneLeader() (patterns []fault.Fault) {
	for _, f := range fault.Any(fault.Legal) {
		if f.Kind != fault.KindOverlap {
			patterns = append(patterns, f)
		}
	}
	return patterns
}

func pi(parallelism, completions int32) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pi"},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To(parallelism), Completions: ptr.To(completions),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers:    []corev1.Container{{Name: "main", Image: "pi"}},
			}},
		},
	}
}

func TestOurs(t *testing.T) {
	simtest.Run(t, simtest.Seeds(300), func(w *simtest.World) {
		j := pi(2, 3)
		w.Controller("job", ours)
		w.Kubelet()
		w.Faults(oneLeader()...)
		w.Always(invariant.AtMostPods(invariant.OwnerOf(j), 2))
		w.Eventually(5*time.Minute, invariant.All(
			invariant.Condition("jobs.batch", "default", "pi", "Complete", "True"),
			invariant.Field("jobs.batch", "default", "pi", "status.succeeded", 3),
		))
		w.Create(j)
	})
}

func TestOursIndexed(t *testing.T) {
	simtest.Run(t, simtest.Seeds(300), func(w *simtest.World) {
		j := pi(2, 3)
		j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
		w.Controller("job", ours)
		w.Kubelet()
		w.Faults(oneLeader()...)
		w.Always(invariant.AtMostPods(invariant.OwnerOf(j), 2), invariant.NoDuplicates(invariant.OwnerOf(j), batchv1.JobCompletionIndexAnnotation))
		w.Eventually(5*time.Minute, invariant.All(
			invariant.Condition("jobs.batch", "default", "pi", "Complete", "True"),
			invariant.Field("jobs.batch", "default", "pi", "status.completedIndexes", "0-2"),
		))
		w.Create(j)
	})
}

// TestAudit loses events for good, which no revision can tell: the audit finds it, and
// without it the Job waits for ever.
func TestAudit(t *testing.T) {
	story := func(audit time.Duration) func(*simtest.World) {
		return func(w *simtest.World) {
			w.Controller("job", jobs.Runner(jobs.Options{All: true, Workers: 1, Writes: 1, Audit: audit}))
			w.Kubelet()
			w.Faults(fault.Fault{Kind: fault.KindLoseEvent, Actor: "job"})
			w.Eventually(time.Hour, invariant.Field("jobs.batch", "default", "pi", "status.succeeded", 2))
			w.Create(pi(1, 2))
		}
	}
	seen := simtest.Seeds(60).Level(fault.Seen)
	simtest.Run(t, seen, story(5*time.Minute))
	if r := simtest.Explore(t, seen, story(-1)); r.Failure == nil {
		t.Error("nothing is lost without the audit: this test does not bite")
	}
}
