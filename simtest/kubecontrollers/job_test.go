package kubecontrollers_test

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/report"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/simtest/kubecontrollers"
)

// TestUpstreamJobRunsTwice tests the Job controller of Kubernetes 1.36.3 with a Job of one pod,
// without restricting the faults. Under legal faults the search finds what the mitigations of 1.35
// and 1.36 leave open: the answer to the create of a pod is lost and the pod's event is late, so
// the controller creates a second pod with another generated name. Both succeed, and the Job of one
// completion has two.
//
// The test documents this release. When the search finds nothing, upstream has fixed the bug, and
// the limits in docs/design/simtest.md must be updated.
func TestUpstreamJobRunsTwice(t *testing.T) {
	r := simtest.Explore(t, simtest.Seeds(3000), func(w *simtest.World) {
		w.Controller("job", kubecontrollers.Job)
		w.Kubelet()
		w.Create(&batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: "pi"},
			Spec: batchv1.JobSpec{
				Parallelism: ptr.To[int32](1), Completions: ptr.To[int32](1), BackoffLimit: ptr.To[int32](0),
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever,
					Containers:    []corev1.Container{{Name: "main", Image: "pi"}},
				}},
			},
		})
	})
	if r.Failure == nil {
		t.Fatalf("nothing was found in %d runs, %d of them different", r.Runs, r.Distinct)
	}
	f := r.Failure
	t.Logf("found in run %d, %s, %d steps: %s: %s\n%q\n%s", f.FoundAfter, f.Grade(), len(f.Run.Steps), f.Run.Failure.Oracle, f.Run.Failure.Message, f.Run.Faults, report.Cause(f.Run, f.Nearest))
	lost := false
	for _, fault := range f.Plan.Faults {
		lost = lost || changesAnswer(fault)
	}
	created := 0
	for _, s := range f.Run.Steps {
		if strings.TrimRight(s.Actor, "+") == "job" && s.Verb == "create" && s.Resource == "pods" && s.Wrote() {
			created++
		}
	}
	if !lost || created < 2 {
		t.Errorf("the failure is not the one described above: %d pods were created", created)
	}
}

// changesAnswer reports whether a fault can keep the answer to a create from its client.
func changesAnswer(f fault.Fault) bool {
	switch f.Kind {
	case fault.KindErrorAfter, fault.KindLostAnswer, fault.KindCrashAfter, fault.KindOverlap, fault.KindLateAnswer, fault.KindDeposedWrite:
		return true
	}
	return false
}
