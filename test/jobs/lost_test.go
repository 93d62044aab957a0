package jobs_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/test/jobs"
)

// TestLostDelete lowers parallelism by one, and loses the answer to the delete while events of pods are late.
// The first event puts another pod first in removal order: a controller that has forgotten the delete also
// deletes that pod, and there is one less than the Job wants.
func TestLostDelete(t *testing.T) {
	simtest.Run(t, simtest.Seeds(200), func(w *simtest.World) {
		j := pi(3, 20)
		w.AllowDifferentOutcomes()
		w.Controller(jobs.Actor, ours)
		w.Controller("kubelet", jobs.Kubelet(func(*corev1.Pod) jobs.Outcome { return jobs.Outcome{} }))
		w.Faults(
			fault.Fault{Kind: fault.KindLostAnswer, Actor: jobs.Actor, Verb: "delete", Resource: "pods", Nth: 1},
			fault.Fault{Kind: fault.KindLag, Actor: jobs.Actor, Resource: "pods", Nth: 3}, // of a pod: created, running, not ready
		)
		w.Create(j)
		w.Advance(2 * time.Minute) // all late events have arrived by now
		w.Always(invariant.Func("two pods are active", func(v invariant.View) error {
			active := 0
			for _, p := range v.List("pods") {
				if p.GetDeletionTimestamp() == nil {
					active++
				}
			}
			if active < 2 {
				return fmt.Errorf("there are %d", active)
			}
			return nil
		}))
		// While all are ready, the first in removal order is the pod that was created last, or has the first
		// name; the last in that order becomes unready.
		all := w.View().List("pods")
		pod := &corev1.Pod{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: all[len(all)-1].GetName()},
		}
		w.Patch(pod, types.StrategicMergePatchType, `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`, "status")
		w.Patch(j, types.MergePatchType, `{"spec":{"parallelism":2}}`)
		w.Advance(2 * time.Minute)
	})
}
