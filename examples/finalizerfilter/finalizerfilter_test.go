package finalizerfilter_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/examples/finalizerfilter"
	"github.com/rehearse-k8s/rehearse/examples/kubelet"
	"github.com/rehearse-k8s/rehearse/examples/verdict"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// TestPodStaysPreparing registers one pod.
func TestPodStaysPreparing(t *testing.T) {
	verdict.Found(t, "the nearest passing run has marker's patch of pods default/web", func(w *simtest.World) {
		w.Controller("marker", finalizerfilter.Run)
		w.Controller("hook", finalizerfilter.Hook)
		w.Controller("kubelet", kubelet.Run)
		w.Eventually(time.Minute, invariant.Field("pods", "default", "web", "metadata.labels["+finalizerfilter.State+"]", finalizerfilter.Normal))
		w.Create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: "web", Labels: map[string]string{finalizerfilter.State: finalizerfilter.Preparing},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
		})
	})
}
