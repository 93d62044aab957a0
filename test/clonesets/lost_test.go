package clonesets_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/api/apps/v1alpha1"
	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/test/clonesets"
)

// TestLostDelete loses the answer to a delete, and the pods' events are late; then another
// pod is named for deletion. Who forgets the first takes both, and one is fewer than was
// promised.
func TestLostDelete(t *testing.T) {
	simtest.Run(t, clonesets.Options().Seeds(250), func(w *simtest.World) {
		set := clonesets.SetOf(3, v1alpha1.CloneSetSpec{UpdateStrategy: v1alpha1.CloneSetUpdateStrategy{
			MaxUnavailable: ptr.To(intstr.FromInt32(0)), MaxSurge: ptr.To(intstr.FromInt32(1)),
		}})
		w.EndsVary()
		w.Controller(clonesets.Actor, ours)
		w.Controller("kubelet", clonesets.Kubelet(nil))
		w.Faults(
			fault.Fault{Kind: fault.KindLostAnswer, Actor: clonesets.Actor, Verb: "delete", Resource: "pods"},
			fault.Fault{Kind: fault.KindLag, Actor: clonesets.Actor, Resource: "pods", For: 40 * time.Second},
		)
		w.Create(set)
		w.Settle()
		promises := invariant.CloneSet(invariant.OwnerOf(set))
		w.Always(promises.Always...)
		w.Patch(set, types.MergePatchType, `{"spec":{"replicas":2}}`)
		w.Advance(5 * time.Second)
		for _, u := range w.View().List("pods") {
			if u.GetDeletionTimestamp() == nil {
				w.Patch(set, types.MergePatchType, `{"spec":{"scaleStrategy":{"podsToDelete":["`+u.GetName()+`"]}}}`)
				break
			}
		}
		w.Eventually(5*time.Minute, setField("status.availableReplicas", 2))
	})
}
