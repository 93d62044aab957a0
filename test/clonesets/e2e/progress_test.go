package e2e

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1beta1"
)

// TestHostNetwork covers upstream's "creates with hostNetwork pod and containerPort without hostPort". The
// API's defaults in pods do not change the template's revision.
func TestHostNetwork(t *testing.T) {
	s := begin(t)
	s.make(1, deadline(600), func(c *v1beta1.CloneSet) {
		c.Spec.Template.Spec.HostNetwork = true
		c.Spec.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080}}
	})
	v := s.see("the pod is ready", all(allReady(1), reason(v1alpha1.ReasonAvailable)))
	if port := v.pods[0].Spec.Containers[0].Ports[0]; port.HostPort != 8080 {
		t.Errorf("port %+v", port)
	}
	s.stays("the pod is kept", kept(v.pods, 1))
}

// TestPreNormal covers upstream's "creates with lifecycle preNormal finalizer". A pod that is Ready without
// its preNormal finalizer is not available; it becomes available as soon as it has the finalizer.
func TestPreNormal(t *testing.T) {
	const preNormalFinalizer = "e2e/let-in"
	s := begin(t)
	s.make(1, deadline(2), hooks(kruise.Lifecycle{PreNormal: &kruise.LifecycleHook{FinalizersHandler: []string{preNormalFinalizer}}}))
	v := s.see("the pod is ready, without its finalizer", all(allReady(1), states(kruise.StatePreparingNormal, 1), reason(v1alpha1.ReasonUpdated)))
	s.see("the deadline is exceeded", all(states(kruise.StatePreparingNormal, 1), reason(v1alpha1.ReasonDeadlineExceeded)))
	s.editPod(v.pods[0].Name, func(p *corev1.Pod) { p.Finalizers = append(p.Finalizers, preNormalFinalizer) })
	s.see("the pod is available", all(states(kruise.StateNormal, 1), kept(v.pods, 1), reason(v1alpha1.ReasonAvailable), func(v view) error {
		if v.set.Status.UpdatedAvailableReplicas != 1 {
			return errors.New("the status does not count it")
		}
		return nil
	}))
	s.editPod(v.pods[0].Name, func(p *corev1.Pod) { p.Finalizers = nil }) // otherwise it could never be deleted
}

// TestUnschedulable covers upstream's "creates with unschedulable scheduler". A pod without a node never
// starts; a template that can be scheduled replaces it.
func TestUnschedulable(t *testing.T) {
	s := begin(t)
	s.make(1, deadline(2), func(c *v1beta1.CloneSet) { c.Spec.Template.Spec.SchedulerName = "missing" })
	s.see("the deadline is exceeded", all(numbers(1, 0, 1, 0), states(kruise.StatePreparingNormal, 1), reason(v1alpha1.ReasonDeadlineExceeded)))
	v, err := s.view()
	if err != nil || v.pods[0].Spec.NodeName != "" || v.pods[0].Status.Phase != corev1.PodPending {
		t.Fatalf("%v\n%s", err, s.picture())
	}
	s.edit(func(c *v1beta1.CloneSet) { c.Spec.Template.Spec.SchedulerName = corev1.DefaultSchedulerName })
	s.see("another pod is available", all(allReady(1), kept(v.pods, 0), states(kruise.StateNormal, 1), reason(v1alpha1.ReasonAvailable)))
}

// TestNoDeadline covers upstream's "creates with maxInt32 progressDeadlineSeconds".
func TestNoDeadline(t *testing.T) {
	s := begin(t)
	s.make(1, deadline(math.MaxInt32))
	s.see("the pod is ready, without a condition Progressing", all(allReady(1), reason("")))
	s.edit(deadline(600))
	s.see("the condition Progressing exists", reason(v1alpha1.ReasonAvailable))
}

// TestNeverAvailable covers upstream's "creates with maxInt32 minReadySeconds and progressDeadlineSeconds".
// Both are valid together.
func TestNeverAvailable(t *testing.T) {
	s := begin(t)
	s.make(1, deadline(math.MaxInt32), func(c *v1beta1.CloneSet) { c.Spec.MinReadySeconds = math.MaxInt32 })
	never := all(allReady(1), reason(""), func(v view) error {
		if v.set.Status.AvailableReplicas != 0 {
			return errors.New("a pod is available")
		}
		return nil
	})
	s.see("the pod is ready and not available", never)
	s.edit(func(c *v1beta1.CloneSet) { c.Spec.ProgressDeadlineSeconds = nil })
	s.see("the same without a deadline", never)
}

// TestScale covers upstream's "scales in normal cases": the defaults, and scaling up and down.
func TestScale(t *testing.T) {
	s := begin(t)
	s.make(1, deadline(600))
	v := s.see("one pod", all(allReady(1), reason(v1alpha1.ReasonAvailable)))
	u := rolling(v.set)
	if u.PodUpdatePolicy != v1beta1.ReCreate || u.MaxUnavailable.String() != "20%" || u.Partition.String() != "0" || u.MaxSurge.String() != "0" {
		t.Errorf("defaults %+v", u)
	}
	s.edit(replicas(3))
	s.see("three pods", all(allReady(3), kept(v.pods, 1), states(kruise.StateNormal, 3), reason(v1alpha1.ReasonAvailable)))
	s.edit(replicas(1))
	s.see("one pod again", all(allReady(1), none, reason(v1alpha1.ReasonAvailable)))
}

// TestScaleOneByOne covers upstream's "scales with minReadySeconds and scaleStrategy". With one pod
// unavailable at a time, each is created after the one before it is available. Upstream uses minReadySeconds
// 10, and asserts that the pod is created within two seconds; that time would depend on the machine here, so
// TestWakesInTime checks the Wake of a plan instead.
func TestScaleOneByOne(t *testing.T) {
	const minReady = 2
	s := begin(t)
	s.make(3, func(c *v1beta1.CloneSet) {
		c.Spec.MinReadySeconds = minReady
		c.Spec.ScaleStrategy.MaxUnavailable = ptr.To(number(1))
	})
	v := s.see("all are available", all(allReady(3), func(v view) error {
		if n := v.set.Status.AvailableReplicas; n != 3 {
			return fmt.Errorf("%d are", n)
		}
		return nil
	}))
	for i := 1; i < 3; i++ {
		ready, made := readyCondition(&v.pods[i-1]).LastTransitionTime, v.pods[i].CreationTimestamp
		if after := made.Sub(ready.Time); after < minReady*time.Second {
			t.Errorf("pod %d is created %s after the one before it is ready", i, after)
		}
	}
}

// TestPaused covers upstream's "pods should be ready when paused=true". A paused set creates and starts pods,
// and updates none.
func TestPaused(t *testing.T) {
	s := begin(t)
	s.make(3, deadline(600), func(c *v1beta1.CloneSet) { rolling(c).Paused = true })
	s.see("the pods are ready", all(allReady(3), states(kruise.StateNormal, 3)))
	s.edit(image("main:2"))
	v := s.see("it is paused", all(numbers(3, 3, 0, 0), reason(v1alpha1.ReasonPaused)))
	s.stays("no pod is updated", kept(v.pods, 3))
	s.edit(replicas(4))
	s.see("one more is created", all(func(v view) error {
		if v.set.Status.ReadyReplicas != 4 {
			return errors.New("it is not ready")
		}
		return nil
	}, kept(v.pods, 3), states(kruise.StateNormal, 4)))
	s.edit(func(c *v1beta1.CloneSet) { rolling(c).Paused = false })
	s.see("all are updated", all(allReady(4), reason(v1alpha1.ReasonAvailable)))
}
