package simtest_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/controller/stages"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// podLifecycles creates two pods: the first is deleted while it runs, the second succeeds.
func podLifecycles(w *simtest.World) {
	w.Nodes(2)
	w.Kubelet()
	server, task := pod("server"), pod("task")
	task.Spec.RestartPolicy = corev1.RestartPolicyNever
	w.Create(server, task)
	w.Settle()
	w.Delete(server)
	w.Eventually(time.Minute, invariant.Field("pods", "default", "task", "status.phase", "Running"))
	w.Eventually(time.Minute, invariant.Gone("pods", "default", "server"))
}

func TestKubelet(t *testing.T) {
	simtest.Run(t, simtest.Seeds(60), podLifecycles)
}

func TestKubeletRepeats(t *testing.T) { repeats(t, simtest.Options{}, podLifecycles) }

func TestSlowKubelet(t *testing.T) {
	slow := fault.Fault{Kind: fault.KindPause, Actor: "kubelet", Verb: "update", Resource: "pods/status", Nth: 1, For: time.Minute}
	out := simtest.Play(t, simtest.Options{}, sim.Plan{Seed: 1, Faults: []fault.Fault{slow}}, func(w *simtest.World) {
		w.Kubelet()
		w.Create(pod("p"))
		w.Advance(30 * time.Second)
		p := pod("p")
		if w.Get(p); p.Status.Phase != corev1.PodPending {
			w.Fatalf("the pod is %s although its kubelet is paused", p.Status.Phase)
		}
		w.Eventually(2*time.Minute, invariant.Field("pods", "default", "p", "status.phase", "Running"))
	})
	run := passed(t, out)
	if who := writers(run, "pods"); !strings.Contains(who, "user scheduler kubelet") {
		t.Errorf("pods were written by %q", who)
	}
}

func TestKubeletMakesANode(t *testing.T) {
	passed(t, simtest.Play(t, simtest.Options{}, sim.Plan{Seed: 1}, func(w *simtest.World) {
		w.Kubelet()
		p := pod("p")
		w.Create(p)
		w.Settle()
		if !w.Get(p) || p.Status.Phase != corev1.PodRunning || p.Spec.NodeName != "node-0" {
			w.Fatalf("the pod is %s on node %q", p.Status.Phase, p.Spec.NodeName)
		}
		for _, c := range p.Status.Conditions {
			if c.LastTransitionTime.Year() != 2000 {
				w.Fatalf("condition %s is of %s", c.Type, c.LastTransitionTime)
			}
		}
	}))
}

// TestKubeletAudit loses the event of a pod's deletion: the engine's audit finds the pod, which
// would otherwise stay Terminating.
func TestKubeletAudit(t *testing.T) {
	test := func(audit time.Duration) func(*simtest.World) {
		return func(w *simtest.World) {
			w.Kubelet(func(o *stages.StageOptions) { o.Audit = audit })
			w.Faults(fault.Fault{Kind: fault.KindLoseEvent, Actor: "kubelet", Resource: "pods"})
			w.Create(pod("p"))
			w.Settle()
			w.Delete(pod("p"))
			w.Eventually(time.Hour, invariant.Gone("pods", "default", "p"))
		}
	}
	seen := simtest.Seeds(30).Level(fault.Seen)
	simtest.Run(t, seen, test(5*time.Minute))
	if r := simtest.Explore(t, seen, test(-1)); r.Failure == nil {
		t.Error("the pod is deleted without the audit: this test does not test the audit")
	}
}
