package careful_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/examples/careful"
	"github.com/rehearse-k8s/rehearse/examples/kubelet"
	"github.com/rehearse-k8s/rehearse/examples/verdict"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
)

func configMap(name, field, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{careful.Label: "yes"}},
		Data:       map[string]string{field: value},
	}
}

// done compares the pods of this ConfigMap only: a request for a pod of an earlier one, which a user has deleted, may still be executed.
var done = invariant.MustCEL("no pod of a slot runs that has succeeded", `
	get("configmaps", "default", "pi") == null ||
	list("pods", "default").filter(p, p.status.phase in ["Pending", "Running"] &&
		p.metadata.?ownerReferences.orValue([]).exists(o, o.uid == get("configmaps", "default", "pi").metadata.uid)).all(p,
		!(p.metadata.labels["`+careful.Slot+`"] in get("configmaps", "default", "pi").?data.succeeded.orValue("").split(" ")))`)

// TestJob runs a job of two pods.
func TestJob(t *testing.T) {
	verdict.Clean(t, 300, func(w *simtest.World) {
		job := configMap("pi", "completions", "2")
		w.Controller("careful", careful.Run)
		w.Controller("kubelet", kubelet.Run)
		w.Always(done, invariant.AtMostPods(invariant.OwnerOf(job), 2), invariant.NoDuplicates(invariant.OwnerOf(job), careful.Slot))
		w.Eventually(5*time.Minute, invariant.All(
			invariant.Field("configmaps", "default", "pi", "data.succeeded", "0 1"),
			invariant.Field("configmaps", "default", "pi", "data.complete", "true"),
		))
		w.Sometimes(invariant.Stale("careful"))
		w.Create(job)
	})
}

// TestReplicas scales a set down and up again, while another client deletes a pod.
func TestReplicas(t *testing.T) {
	verdict.Clean(t, 300, func(w *simtest.World) {
		set := configMap("web", "replicas", "3")
		w.Controller("careful", careful.Run)
		w.Controller("kubelet", kubelet.Run)
		w.Always(invariant.AtMostPods(invariant.OwnerOf(set), 3), invariant.NoDuplicates(invariant.OwnerOf(set), careful.Slot))
		w.Eventually(5*time.Minute, invariant.Ready(invariant.OwnerOf(set), 2))
		w.Create(set)
		w.Settle()
		w.Patch(set, types.MergePatchType, `{"data":{"replicas":"1"}}`)
		w.Patch(set, types.MergePatchType, `{"data":{"replicas":"2"}}`)
		w.Settle()
		if pods := w.View().List("pods"); len(pods) > 0 {
			w.Delete(pods[0])
		}
	})
}
