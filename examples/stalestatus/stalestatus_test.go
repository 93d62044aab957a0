package stalestatus_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/examples/stalestatus"
	"github.com/rehearse-k8s/rehearse/examples/verdict"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// TestRunningGoesBack watches the phase of one pod.
func TestRunningGoesBack(t *testing.T) {
	verdict.Found(t, "player patched pods/status default/web (step", func(w *simtest.World) {
		w.Controller("player", stalestatus.Run)
		w.Always(neverBack())
		w.Eventually(time.Minute, invariant.Field("pods", "default", "web", "status.phase", "Running"))
		w.Create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
		})
	})
}

// neverBack records which pods have run, so each run needs a new one.
func neverBack() invariant.Invariant {
	ran := map[types.UID]bool{}
	return invariant.Func("a pod that runs is never ContainerCreating again", func(v invariant.View) error {
		for _, p := range v.List("pods") {
			phase, _, _ := unstructured.NestedString(p.Object, "status", "phase")
			if ran[p.GetUID()] && phase == "Pending" {
				return fmt.Errorf("%s is %s", p.GetName(), phase)
			}
			ran[p.GetUID()] = ran[p.GetUID()] || phase == "Running"
		}
		return nil
	})
}
