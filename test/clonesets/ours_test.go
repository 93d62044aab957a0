package clonesets_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/api/apps/v1alpha1"
	controller "github.com/rehearse-k8s/rehearse/controller/clonesets"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/test/clonesets"
)

// ours is our controller with one worker, so that runs repeat, and without the audit,
// which is for faults that are not legal.
var ours = controller.Runner(controller.Options{Workers: 1, Writes: 1, Audit: -1})

func TestSmoke(t *testing.T) {
	for _, kind := range []v1alpha1.CloneSetUpdateStrategyType{v1alpha1.ReCreate, v1alpha1.InPlaceIfPossible} {
		t.Run(string(kind), func(t *testing.T) {
			simtest.Run(t, clonesets.Options().Seeds(400), func(w *simtest.World) {
				set := clonesets.SetOf(3, v1alpha1.CloneSetSpec{UpdateStrategy: v1alpha1.CloneSetUpdateStrategy{Type: kind}})
				w.EndsVary()
				w.Controller(clonesets.Actor, ours)
				w.Faults(clonesets.AnyFault()...)
				w.Controller("kubelet", clonesets.Kubelet(nil))
				w.Create(set)
				w.Settle()
				w.Get(set)
				w.Patch(set, types.MergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"web:2"}]}}}}`)
				w.Settle()
				w.Get(set)
				w.Patch(set, types.MergePatchType, `{"spec":{"replicas":1}}`)
				w.Eventually(time.Minute, invariant.All(
					invariant.Field("clonesets.apps.kruise.io", "default", "web", "status.updatedAvailableReplicas", 1),
					invariant.Field("clonesets.apps.kruise.io", "default", "web", "status.replicas", 1)))
			})
		})
	}
}
