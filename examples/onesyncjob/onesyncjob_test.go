package onesyncjob_test

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/examples/kubelet"
	"github.com/rehearse-k8s/rehearse/examples/onesyncjob"
	"github.com/rehearse-k8s/rehearse/examples/verdict"
	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/invariant/job"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// newJob returns a Job with parallelism and completions of n.
func newJob(n int32, mode batchv1.CompletionMode) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pi"},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To(n), Completions: ptr.To(n), CompletionMode: ptr.To(mode), BackoffLimit: ptr.To[int32](0),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "pi"}},
			}},
		},
	}
}

func run(j *batchv1.Job) func(*simtest.World) {
	return func(w *simtest.World) {
		invariants := job.Invariants(invariant.Owner{Kind: "Job", Namespace: "default", Name: "pi"})
		w.Always(invariants.Always...)
		w.Eventually(5*time.Minute, invariants.AtQuiescence)
		w.Controller("job", onesyncjob.Run)
		w.Controller("kubelet", kubelet.Run)
		w.Create(j.DeepCopy())
	}
}

// TestSecondPod finds the race of kubernetes 130103 without restricting the faults.
func TestSecondPod(t *testing.T) {
	verdict.Found(t, "it had not observed its own update of jobs/status default/pi", run(newJob(1, batchv1.NonIndexedCompletion)))
}

// TestIndexAgain finds the same race for a Job with one index. It excludes lost answers to creates:
// they would find another weakness first, the names that the server generates.
func TestIndexAgain(t *testing.T) {
	verdict.Found(t, "it had not observed its own update of jobs/status default/pi", func(w *simtest.World) {
		w.Faults(fault.Lag("jobs.batch"))
		run(newJob(1, batchv1.IndexedCompletion))(w)
	})
}

// TestWithoutFaults checks that the controller completes Jobs when there are no faults.
func TestWithoutFaults(t *testing.T) {
	for _, mode := range []batchv1.CompletionMode{batchv1.NonIndexedCompletion, batchv1.IndexedCompletion} {
		r := simtest.Explore(t, simtest.Seeds(3), func(w *simtest.World) {
			w.Faults()
			w.Eventually(time.Minute, invariant.Condition("jobs.batch", "default", "pi", "Complete", "True"))
			w.Eventually(time.Minute, invariant.Field("jobs.batch", "default", "pi", "status.succeeded", 3))
			run(newJob(3, mode))(w)
		})
		if r.Failure != nil {
			t.Errorf("%s: %+v", mode, r.Failure.Run.Failure)
		}
	}
}
