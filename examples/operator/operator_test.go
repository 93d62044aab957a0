package operator_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/rehearse-k8s/rehearse/examples/operator"
	"github.com/rehearse-k8s/rehearse/examples/verdict"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
)

func site(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{operator.Label: "yes"}},
		Data:       map[string]string{"image": "site:1", "replicas": "2"},
	}
}

// classicQueue turns off controller-runtime's priority queue: in 0.24.1 its goroutines may deadlock
// when the manager stops (handleReadyItems hands an item to a worker that has returned, and holds
// the queue's lock).
func classicQueue(o *ctrl.Options) { o.Controller.UsePriorityQueue = new(false) }

// TestTwoSites changes one site and deletes another.
func TestTwoSites(t *testing.T) {
	verdict.Clean(t, 150, func(w *simtest.World) {
		w.Manager("operator", operator.SetupWithManager, classicQueue)
		stays, goes := site("stays"), site("goes")
		w.Create(stays, goes)
		w.Settle()
		w.Patch(stays, types.MergePatchType, `{"data":{"image":"site:2"}}`)
		w.Delete(goes)
		w.Eventually(5*time.Minute, invariant.All(
			invariant.Field("deployments.apps", "default", "stays", "spec.template.spec.containers[0].image", "site:2"),
			invariant.Exists("secrets", "default", "stays"),
			invariant.Gone("deployments.apps", "default", "goes"),
			invariant.Gone("secrets", "default", "goes"),
			invariant.Gone("configmaps", "default", "goes"),
		))
	})
}
