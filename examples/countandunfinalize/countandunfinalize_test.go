package countandunfinalize_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/examples/countandunfinalize"
	"github.com/rehearse-k8s/rehearse/examples/kubelet"
	"github.com/rehearse-k8s/rehearse/examples/verdict"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// one is the invariant of parallelism 1, completions 1: once a pod has succeeded, no other pod
// runs.
var one = invariant.MustCEL("no pod runs once one has succeeded", `
	!(list("pods", "default").exists(p, p.status.phase == "Succeeded") || get("configmaps", "default", "pi").?data.succeeded.orValue("0") != "0")
	|| !list("pods", "default").exists(p, p.status.phase in ["Pending", "Running"])`)

// TestSecondPod runs a job of one pod.
func TestSecondPod(t *testing.T) {
	verdict.Found(t, "had not observed its own update of configmaps default/pi", func(w *simtest.World) {
		w.Controller("job", countandunfinalize.Run)
		w.Controller("kubelet", kubelet.Run)
		w.Always(one)
		w.Eventually(5*time.Minute, invariant.Field("configmaps", "default", "pi", "data.succeeded", "1"))
		w.Create(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pi", Labels: map[string]string{countandunfinalize.Label: "yes"}},
			Data:       map[string]string{"completions": "1"},
		})
	})
}
