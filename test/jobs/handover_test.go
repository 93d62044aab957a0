package jobs_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/simtest/kubecontrollers"
	"github.com/rehearse-k8s/rehearse/test/jobs"
)

// TestHandover deletes a Job without its pods (kubectl delete job old --cascade=orphan), and creates another
// one whose selector (manualSelector) matches the label that the API gave the pods of the first: the new Job
// adopts them, and creates no second set of pods.
func TestHandover(t *testing.T) {
	simtest.Run(t, simtest.Seeds(60), func(w *simtest.World) {
		j := pi(2, 2)
		j.Name = "old"
		w.Controller(jobs.Actor, ours)
		w.Controller("kubelet", jobs.Kubelet(runForever))
		w.Controller("garbage-collector", kubecontrollers.GarbageCollectorOf("jobs.batch", "pods"))
		w.Faults(fault.Lag("pods"), fault.Lag("jobs.batch"), fault.Crash(jobs.Actor))
		w.AllowDifferentOutcomes()
		w.Create(j)
		w.Advance(time.Minute)
		w.Get(j)
		client, err := kubernetes.NewForConfig(w.Config())
		if err != nil {
			w.Fatalf("%v", err)
		}
		if err := client.BatchV1().Jobs("default").Delete(context.Background(), "old", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan)}); err != nil {
			w.Fatalf("%v", err)
		}
		w.Advance(time.Minute)
		successor := pi(2, 2)
		successor.Spec.ManualSelector = ptr.To(true)
		successor.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.ControllerUidLabel: string(j.UID)}}
		successor.Spec.Template.Labels = successor.Spec.Selector.MatchLabels
		w.Create(successor)
		w.Eventually(5*time.Minute, invariant.Func("two pods of the new Job run", func(v invariant.View) error {
			pods := v.List("pods")
			if len(pods) != 2 {
				return fmt.Errorf("there are %d pods", len(pods))
			}
			for _, p := range pods {
				if !hasFinalizer(p) || !metav1.IsControlledBy(p, successor) {
					return fmt.Errorf("pod %s has finalizers %v and owners %v", p.GetName(), p.GetFinalizers(), p.GetOwnerReferences())
				}
			}
			return nil
		}))
	})
}
