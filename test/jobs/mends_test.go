package jobs_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/simtest/kubecontrollers"
	"github.com/rehearse-k8s/rehearse/test/jobs"
)

// What follows plays mistakes that the controller has made once.

// podOf is somebody's pod that says of itself that a Job controls it, by a name and a UID.
func podOf(name, owner string, uid types.UID) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, Finalizers: []string{batchv1.JobTrackingFinalizer},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "batch/v1", Kind: "Job", Name: owner, UID: uid, Controller: ptr.To(true),
			}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "theirs"}}},
	}
}

func isHeld(o *unstructured.Unstructured) bool {
	return slices.Contains(o.GetFinalizers(), batchv1.JobTrackingFinalizer)
}

// TestOtherOwnerReference: the API does not check that an owner's name and UID belong
// together. A pod that names a Job's UID and another name makes that Job's pods no pods
// of a Job that is gone.
func TestOtherOwnerReference(t *testing.T) {
	simtest.Run(t, simtest.Seeds(50), func(w *simtest.World) {
		j := pi(2, 2)
		w.Controller("job", ours)
		w.Controller("kubelet", jobs.Kubelet(func(*corev1.Pod) jobs.Outcome { return jobs.Outcome{After: 10 * time.Second} }))
		w.Faults(fault.Lag("pods"), fault.Crash("job"))
		w.Always(invariant.Func("pods of a Job that run are held for it", func(v invariant.View) error {
			for _, p := range v.List("pods") {
				phase, _, _ := unstructured.NestedString(p.Object, "status", "phase")
				if p.GetLabels()[batchv1.JobNameLabel] == "pi" && phase == string(corev1.PodRunning) && !isHeld(p) {
					return fmt.Errorf("pod %s is not", p.GetName())
				}
			}
			return nil
		}))
		w.Eventually(5*time.Minute, invariant.Condition("jobs.batch", "default", "pi", "Complete", "True"))
		w.Create(j)
		w.Advance(3 * time.Second)
		w.Create(podOf("theirs", "another", j.UID))
	})
}

// TestLeftByManualSelector deletes a Job and not its pods. Its selector is the user's own,
// so that nothing in a pod that has lost its owner names the Job: it is let go all the same.
func TestLeftByManualSelector(t *testing.T) {
	simtest.Run(t, simtest.Seeds(50), func(w *simtest.World) {
		j := pi(2, 2)
		j.Spec.ManualSelector, j.Spec.Selector = ptr.To(true), &metav1.LabelSelector{MatchLabels: map[string]string{"app": "pi"}}
		j.Spec.Template.Labels = j.Spec.Selector.MatchLabels
		w.Controller("job", ours)
		w.Controller("kubelet", jobs.Kubelet(func(*corev1.Pod) jobs.Outcome { return jobs.Outcome{} }))
		w.Controller("garbage-collector", kubecontrollers.GarbageCollectorOf("jobs.batch", "pods"))
		w.Faults(fault.Lag("pods"), fault.Lag("jobs.batch"))
		w.AllowDifferentOutcomes()
		w.Eventually(5*time.Minute, invariant.Func("the pods have no controller", func(v invariant.View) error {
			pods := v.List("pods")
			if len(pods) != 2 {
				return fmt.Errorf("there are %d", len(pods))
			}
			for _, p := range pods {
				if isHeld(p) || len(p.GetOwnerReferences()) > 0 {
					return fmt.Errorf("pod %s has finalizers %v and owners %v", p.GetName(), p.GetFinalizers(), p.GetOwnerReferences())
				}
			}
			return nil
		}))
		client, err := kubernetes.NewForConfig(w.Config())
		if err != nil {
			w.Fatalf("%v", err)
		}
		w.Create(j)
		w.Settle()
		err = client.BatchV1().Jobs("default").Delete(context.Background(), "pi", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan)})
		if err != nil {
			w.Fatalf("%v", err)
		}
	})
}

// TestLateSuspension suspends a Job, and deletes its pod, of which the controller hears
// first. What it is about to make it looks up once more: no pod is made in vain.
func TestLateSuspension(t *testing.T) {
	simtest.Run(t, simtest.Seeds(50), func(w *simtest.World) {
		j := pi(1, 1)
		w.Controller("job", ours)
		w.Controller("kubelet", jobs.Kubelet(func(*corev1.Pod) jobs.Outcome { return jobs.Outcome{} }))
		w.Faults(fault.Fault{Kind: fault.KindLag, Actor: "job", Resource: "jobs.batch", For: 40 * time.Second})
		w.AllowDifferentOutcomes()
		w.Create(j)
		w.Settle()
		w.Patch(j, types.MergePatchType, `{"spec":{"suspend":true}}`)
		before := creates(w)
		for _, p := range w.View().List("pods") {
			w.Delete(p)
		}
		w.Advance(time.Minute)
		if after := creates(w); len(after) > len(before) {
			w.Fatalf("a pod is made for a Job that is suspended: step %d", after[len(before)].N)
		}
	})
}
