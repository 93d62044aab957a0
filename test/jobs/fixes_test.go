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

// These tests run defects that the controller has had.

// podOf returns a pod whose owner reference has the name of a Job and a UID.
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

func hasFinalizer(o *unstructured.Unstructured) bool {
	return slices.Contains(o.GetFinalizers(), batchv1.JobTrackingFinalizer)
}

// TestOtherOwnerReference checks an owner reference whose name and UID belong to different Jobs, which the API
// does not check. Such a pod must not make the controller release the pods of the Job with the UID as if the
// Job were gone.
func TestOtherOwnerReference(t *testing.T) {
	simtest.Run(t, simtest.Seeds(50), func(w *simtest.World) {
		j := pi(2, 2)
		w.Controller("job", ours)
		w.Controller("kubelet", jobs.Kubelet(func(*corev1.Pod) jobs.Outcome { return jobs.Outcome{After: 10 * time.Second} }))
		w.Faults(fault.Lag("pods"), fault.Crash("job"))
		w.Always(invariant.Func("running pods of a Job have the finalizer", func(v invariant.View) error {
			for _, p := range v.List("pods") {
				phase, _, _ := unstructured.NestedString(p.Object, "status", "phase")
				if p.GetLabels()[batchv1.JobNameLabel] == "pi" && phase == string(corev1.PodRunning) && !hasFinalizer(p) {
					return fmt.Errorf("pod %s does not have it", p.GetName())
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

// TestLeftByManualSelector deletes a Job without its pods. Its selector is the user's, so that nothing in a
// pod without owner reference names the Job: the finalizer is removed all the same.
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
			if len(pods) > 2 { // fewer: the controller observed the Job or the first pod after the end of the Job
				return fmt.Errorf("there are %d", len(pods))
			}
			for _, p := range pods {
				if hasFinalizer(p) || len(p.GetOwnerReferences()) > 0 {
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

// TestLateSuspension suspends a Job and deletes its pod, whose event arrives first. Before it creates a pod,
// the controller reads the Job from the API: it creates none.
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
			w.Fatalf("a pod is created for a suspended Job: step %d", after[len(before)].N)
		}
	})
}
