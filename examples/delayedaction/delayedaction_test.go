package delayedaction_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/examples/delayedaction"
	"github.com/rehearse-k8s/rehearse/examples/verdict"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// TestPodsHang deletes two pods of the same name, one after the other.
func TestPodsHang(t *testing.T) {
	verdict.Found(t, "the nearest passing run has player's patch of pods default/web-0", func(w *simtest.World) {
		w.Controller("player", delayedaction.Run)
		w.Eventually(time.Minute, invariant.Deleted())
		for range 2 {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", Finalizers: []string{delayedaction.Finalizer}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
			}
			w.Create(pod)
			w.Settle()
			w.Delete(pod)
			for wait := 10 * time.Second; w.Get(pod); wait *= 2 {
				if wait > 10*time.Minute {
					return // the pod already hangs
				}
				w.Advance(wait)
			}
		}
	})
}
