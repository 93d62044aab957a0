package corpus_test

import (
	"flag"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/examples/careful"
	"github.com/rehearse-k8s/rehearse/examples/kubelet"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/test/corpus"
)

var runs = flag.Int("corpus.runs", 120, "runs of the search of each style")

// deployment is what the user creates.
func deployment() *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](2),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1"}}},
			},
		},
	}
}

// use creates a Deployment and changes its image.
func use(w *simtest.World) {
	d := deployment()
	w.Create(d)
	w.Settle()
	w.Patch(d, types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"web:2"}]}}}}`)
}

// TestNoFalseAlarm searches every style at level legal: no invariant is violated, and every run ends in the same
// state as the runs without faults.
func TestNoFalseAlarm(t *testing.T) {
	for style, setup := range corpus.Styles {
		t.Run(style, func(t *testing.T) {
			simtest.Run(t, simtest.Seeds(*runs), func(w *simtest.World) {
				w.Manager("corpus", setup)
				use(w)
				if style == "cleanup by finalizer" {
					w.Settle()
					w.Delete(deployment())
				}
			})
		})
	}
	t.Run("leader election", func(t *testing.T) {
		simtest.Run(t, simtest.Seeds(*runs), func(w *simtest.World) {
			w.ManagerReplicas("corpus", 2, corpus.Styles["nil on conflict"])
			use(w)
		})
	})
	t.Run("a counter like Job's", func(t *testing.T) {
		simtest.Run(t, simtest.Seeds(*runs), func(w *simtest.World) {
			owner := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: "count", Labels: map[string]string{careful.Label: "yes"}},
				Data:       map[string]string{"replicas": "2"},
			}
			w.Controller("careful", careful.Run)
			w.Controller("kubelet", kubelet.Run)
			w.Eventually(5*time.Minute, invariant.Ready(invariant.OwnerOf(owner), 2))
			w.Create(owner)
		})
	})
}
