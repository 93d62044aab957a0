package jobs_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/fault"
	controller "github.com/rehearse-k8s/rehearse/internal/controller/jobs"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/invariant/job"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/simtest/kubecontrollers"
	"github.com/rehearse-k8s/rehearse/test/family"
	"github.com/rehearse-k8s/rehearse/test/jobs"
)

// TestLateCommits answers each write in turn with 504 and commits it seven seconds later, as etcd may do when
// its leader changes. No pod is counted twice or never, and no surplus pod is created. A create commits before
// the user changes the Job: after the change no controller can prevent it, and the next plan removes the pod.
func TestLateCommits(t *testing.T) {
	for n := 1; n <= 24; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			simtest.Run(t, simtest.Seeds(1), func(w *simtest.World) {
				j := pi(2, 4)
				invariants := job.Invariants(invariant.OwnerOf(j))
				w.AllowDifferentOutcomes()
				w.Always(invariants.Always...)
				w.Eventually(15*time.Minute, invariants.AtQuiescence)
				w.Eventually(15*time.Minute, invariant.Condition("jobs.batch", "default", "pi", "Complete", "True"))
				w.Controller("kubelet", jobs.Kubelet(func(*corev1.Pod) jobs.Outcome { return jobs.Outcome{After: 4 * time.Second} }))
				w.Controller(jobs.Actor, family.LateCommit(ours, n))
				w.Create(j)
				w.Advance(6 * time.Second) // the second pods run
				w.Patch(j, types.MergePatchType, `{"spec":{"parallelism":1}}`)
				w.Advance(time.Second)
				w.Patch(j, types.MergePatchType, `{"spec":{"suspend":true}}`)
				w.Advance(20 * time.Second)
				w.Patch(j, types.MergePatchType, `{"spec":{"suspend":false}}`)
			})
		})
	}
}

// TestPodSuccessor replaces a pod by another one with the same name while a patch of the first is in flight,
// as it may be for any time: no write of the controller changes the second pod, and no Event reports an error.
func TestPodSuccessor(t *testing.T) {
	simtest.Run(t, simtest.Seeds(60), func(w *simtest.World) {
		j := pi(1, 1)
		w.Controller(jobs.Actor, func(ctx context.Context, config *rest.Config) error {
			return controller.Runner(controller.Options{All: true, Workers: 1, Writes: 1, Audit: -1, Events: config})(ctx, config)
		})
		w.Controller("kubelet", jobs.Kubelet(func(*corev1.Pod) jobs.Outcome { return jobs.Outcome{After: 4 * time.Second} }))
		w.Faults(
			fault.Fault{Kind: fault.KindLateRequest, Actor: jobs.Actor, Verb: "patch", Resource: "pods"},
			fault.Fault{Kind: fault.KindLateRequest, Actor: jobs.Actor, Verb: "delete", Resource: "pods"},
			fault.Fault{Kind: fault.KindLag, Actor: jobs.Actor, Resource: "pods"},
		)
		w.AllowDifferentOutcomes()
		w.Eventually(15*time.Minute, invariant.Condition("jobs.batch", "default", "pi", "Complete", "True"))
		w.Create(j)
		w.Advance(10 * time.Second)
		next := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "theirs"}}}}
		for _, p := range w.View().List("pods") {
			next.Name, next.Namespace = p.GetName(), p.GetNamespace()
			w.Patch(p, types.MergePatchType, `{"metadata":{"finalizers":null}}`)
			client, err := kubernetes.NewForConfig(w.Config())
			if err == nil {
				err = client.CoreV1().Pods(next.Namespace).Delete(context.Background(), next.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
			}
			if err != nil {
				w.Fatalf("%v", err)
			}
		}
		w.Create(next)
		w.Advance(time.Minute)
		w.Get(next)
		for _, s := range w.View().Run().Steps {
			if s.Wrote() && s.Actor == jobs.Actor && s.UID == string(next.UID) {
				w.Fatalf("step %d: %s %s is for the first pod", s.N, s.Verb, s.Name)
			}
		}
		if slices.ContainsFunc(w.View().List("events"), isAbout("FailedUpdatePod")) {
			w.Fatalf("an Event says that a pod could not be updated")
		}
	})
}

// TestJobSuccessor deletes a Job and creates another one with the same name while a status of the first is in
// flight: it does not change the second.
func TestJobSuccessor(t *testing.T) {
	simtest.Run(t, simtest.Seeds(100), func(w *simtest.World) {
		j := pi(1, 1)
		again := j.DeepCopy()
		invariants := job.Invariants(invariant.OwnerOf(j))
		w.Controller(jobs.Actor, ours)
		w.Controller("kubelet", jobs.Kubelet(func(*corev1.Pod) jobs.Outcome { return jobs.Outcome{After: 4 * time.Second} }))
		w.Controller("garbage-collector", kubecontrollers.GarbageCollectorOf("jobs.batch", "pods"))
		w.Faults(
			fault.Fault{Kind: fault.KindLateRequest, Actor: jobs.Actor, Verb: "update", Resource: "jobs.batch/status"},
			fault.Fault{Kind: fault.KindLag, Actor: jobs.Actor, Resource: "jobs.batch"},
		)
		w.AllowDifferentOutcomes()
		w.Always(invariants.Always...)
		w.Always(invariant.Func("a Job's status contains nothing of the Job before", func(v invariant.View) error {
			o := v.Get("jobs.batch", "default", "pi")
			if o == nil || again.UID == "" || o.GetUID() != again.UID {
				return nil
			}
			for _, p := range v.List("pods") {
				if metav1.IsControlledBy(p, again) {
					return nil
				}
			}
			if status := fmt.Sprint(o.Object["status"]); strings.Contains(status, "succeeded") || strings.Contains(status, "Complete") {
				return fmt.Errorf("it has no pods, and its status is %s", status)
			}
			return nil
		}))
		w.Eventually(15*time.Minute, invariant.Condition("jobs.batch", "default", "pi", "Complete", "True"))
		w.Create(j)
		w.Advance(4500 * time.Millisecond)
		w.Delete(j)
		w.Create(again)
	})
}

// TestTwoInstances runs a second instance while the first one still works, as may happen with leader election
// after a process was paused: no surplus pod is created, and the Job ends. A pod may be counted twice, as
// docs/explanation/jobs.md explains.
func TestTwoInstances(t *testing.T) {
	simtest.Run(t, simtest.Seeds(300), func(w *simtest.World) {
		j := pi(2, 3)
		invariants := job.Invariants(invariant.OwnerOf(j))
		w.Controller(jobs.Actor, ours)
		w.Controller("kubelet", jobs.Kubelet(func(*corev1.Pod) jobs.Outcome { return jobs.Outcome{After: 4 * time.Second} }))
		w.Faults(fault.Fault{Kind: fault.KindOverlap, Actor: jobs.Actor}, fault.Fault{Kind: fault.KindLag, Actor: jobs.Actor})
		w.AllowDifferentOutcomes()
		for _, p := range invariants.Always {
			if !strings.Contains(p.Name, "counted twice") {
				w.Always(p)
			}
		}
		w.Eventually(15*time.Minute, invariant.Condition("jobs.batch", "default", "pi", "Complete", "True"))
		w.Create(j)
	})
}
