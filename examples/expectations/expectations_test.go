package expectations_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/examples/expectations"
	"github.com/rehearse-k8s/rehearse/examples/verdict"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// TestWaitsForEver deletes the only pod of a set as another client.
func TestWaitsForEver(t *testing.T) {
	verdict.Found(t, "the nearest passing run has replicas' create of pods default/web-", func(w *simtest.World) {
		set := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{expectations.Label: "yes"}},
			Data:       map[string]string{"replicas": "1"},
		}
		w.Controller("replicas", expectations.Run)
		w.Create(set)
		w.Eventually(time.Minute, invariant.ExactlyPods(invariant.OwnerOf(set), 1))
		w.Settle()
		for _, p := range w.View().List("pods") {
			w.Delete(p)
		}
	})
}
