package kubelet_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/examples/kubelet"
	"github.com/rehearse-k8s/rehearse/examples/verdict"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
)

func pod(name string, policy corev1.RestartPolicy) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{RestartPolicy: policy, Containers: []corev1.Container{{Name: "c", Image: "c"}}},
	}
}

// TestRun checks a pod that stays, one that succeeds, and one that is deleted.
func TestRun(t *testing.T) {
	verdict.Clean(t, 200, func(w *simtest.World) {
		gone := pod("gone", corev1.RestartPolicyAlways)
		w.Controller("kubelet", kubelet.Run)
		w.Create(pod("stays", corev1.RestartPolicyAlways), pod("ends", corev1.RestartPolicyNever), gone)
		w.Advance(10 * time.Second)
		w.Delete(gone)
		w.Eventually(time.Minute, invariant.All(
			invariant.Condition("pods", "default", "stays", "Ready", "True"),
			invariant.Field("pods", "default", "ends", "status.phase", "Succeeded"),
			invariant.Gone("pods", "default", "gone"),
		))
	})
}
