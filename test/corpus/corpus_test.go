package corpus_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// useStyle is what the user does with the controller of a style. The one with a cleanup has to delete what it created.
func useStyle(w *simtest.World, style string) {
	if createsTwice(w, style) {
		return
	}
	use(w)
	if style == "ends its goroutines" {
		scaleRepeatedly(w)
	}
	if style != "cleanup by finalizer" {
		w.Eventually(10*time.Minute, updated)
		return
	}
	w.Settle()
	w.Sometimes(invariant.Func("the object outside of the Deployment exists", func(v invariant.View) error {
		return count(v, 1, func(o *unstructured.Unstructured) bool { return o.GetName() == "web-outside" })
	}))
	w.Delete(deployment())
}

// scaleRepeatedly scales the Deployment up and down again several times.
func scaleRepeatedly(w *simtest.World) {
	d := deployment()
	w.Repeat(4, func() {
		w.Patch(d, types.MergePatchType, `{"spec":{"replicas":3}}`)
		w.Settle()
		w.Patch(d, types.MergePatchType, `{"spec":{"replicas":2}}`)
	})
}

// createsTwice is what the user does with the controllers of successors.go. It returns false for any other controller.
func createsTwice(w *simtest.World, name string) bool {
	switch name {
	case "deletes with a UID", "deletes by name":
		createTwice(w, 0)
	case "records with a revision", "records by name":
		createTwice(w, 2*time.Second)
	default:
		return false
	}
	return true
}

// createTwice creates a Deployment, deletes it, and creates another one with the same name after a time.
func createTwice(w *simtest.World, after time.Duration) {
	first, second := deployment(), deployment()
	first.Labels = map[string]string{corpus.RetireLabel: "yes", corpus.TeamLabel: "red"}
	second.Labels = map[string]string{corpus.TeamLabel: "blue"}
	w.Create(first)
	second.Spec.Template.Spec.Containers[0].Image = "web:2"
	w.Delete(first)
	if after > 0 {
		w.Advance(after)
	}
	w.Create(second)
	w.Eventually(10*time.Minute, updated)
}

// updated requires that the parts of the Deployment have the new image: a controller that does nothing is not
// correct.
var updated = invariant.Func("two parts have the image web:2", func(v invariant.View) error {
	return count(v, 2, func(o *unstructured.Unstructured) bool {
		image, _, _ := unstructured.NestedString(o.Object, "data", "image")
		return o.GetLabels()["part-of"] == "web" && image == "web:2"
	})
})

// count requires a number of ConfigMaps.
func count(v invariant.View, want int, matches func(*unstructured.Unstructured) bool) error {
	n := 0
	for _, o := range v.List("configmaps") {
		if matches(o) {
			n++
		}
	}
	if n != want {
		return fmt.Errorf("%d", n)
	}
	return nil
}

// TestNoFalseAlarm searches every style at level legal: no invariant is violated, and every run ends in the same
// state as the runs without faults.
func TestNoFalseAlarm(t *testing.T) {
	for style, setup := range corpus.Styles {
		t.Run(style, func(t *testing.T) {
			simtest.Run(t, simtest.Seeds(*runs), func(w *simtest.World) {
				w.Manager("corpus", setup)
				useStyle(w, style)
			})
		})
	}
	t.Run("leader election", func(t *testing.T) {
		simtest.Run(t, simtest.Seeds(*runs), func(w *simtest.World) {
			w.ManagerReplicas("corpus", 2, corpus.Styles["nil on conflict"])
			use(w)
			w.Eventually(10*time.Minute, updated)
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
