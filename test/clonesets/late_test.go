package clonesets_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/invariant/cloneset"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/test/clonesets"
	"github.com/rehearse-k8s/rehearse/test/family"
)

// TestLateCommits answers each write of two in-place updates in turn with 504, which then commits seven seconds later, in
// the middle of the second update. A patch without the resourceVersion as a precondition would then put the pod back
// into service while its image changes.
func TestLateCommits(t *testing.T) {
	for n := 1; n <= 24; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			simtest.Run(t, clonesets.Options().Seeds(1), func(w *simtest.World) {
				set := clonesets.SetOf(2, v1alpha1.CloneSetSpec{UpdateStrategy: v1alpha1.CloneSetUpdateStrategy{
					Type: v1alpha1.InPlaceOnly, InPlaceUpdateStrategy: &kruise.InPlaceUpdateStrategy{GracePeriodSeconds: 5}, MaxUnavailable: ptr.To(intstr.FromInt32(2)),
				}})
				invariants := cloneset.Invariants(invariant.OwnerOf(set))
				w.AllowDifferentOutcomes()
				w.Always(invariants.Always...)
				w.Eventually(clonesets.Timeout, invariants.AtQuiescence)
				w.Controller(clonesets.Actor, family.LateCommit(ours, n))
				w.Controller("kubelet", clonesets.Kubelet(nil))
				w.Create(set)
				w.Advance(5 * time.Second)
				for _, image := range []string{"web:2", "web:3", "web:2", "web:1"} {
					w.Patch(set, types.MergePatchType, fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":%q}]}}}}`, image))
					w.Advance(11 * time.Second)
				}
			})
		})
	}
}
