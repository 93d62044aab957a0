package e2e

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1beta1"
)

// blocked adds a preDelete hook and a template whose pods it blocks.
func blocked(c *v1beta1.CloneSet) {
	c.Spec.Lifecycle = &kruise.Lifecycle{PreDelete: &kruise.LifecycleHook{LabelsHandler: map[string]string{"e2e/hold": "true"}}}
	c.Spec.Template.Labels["e2e/hold"] = "true"
}

func release(p *corev1.Pod) { delete(p.Labels, "e2e/hold") }

// TestSpecifiedDelete covers upstream's "specific delete a Pod with excludePreparingDelete disabled". A pod
// that waits for its hook counts, and is replaced when it is gone.
func TestSpecifiedDelete(t *testing.T) {
	s := begin(t)
	s.make(3, deadline(600), blocked)
	before := s.see("three pods", all(allReady(3), reason(v1alpha1.ReasonAvailable))).pods
	name := before[1].Name
	s.editPod(name, func(p *corev1.Pod) { p.Labels[kruise.LabelSpecifiedDelete] = "true" })
	waits := all(states(kruise.StatePreparingDelete, 1), states(kruise.StateNormal, 2), numbers(3, 3, 3, 3), kept(before, 3))
	s.see("the pod waits for its hook", all(waits, reason(v1alpha1.ReasonUpdated)))
	s.stays("no other pod is created", waits)
	s.editPod(name, release)
	s.see("another has taken its place", all(allReady(3), none, kept(before, 2), states(kruise.StateNormal, 3), reason(v1alpha1.ReasonAvailable), func(v view) error {
		for _, p := range v.pods {
			if p.UID == before[1].UID {
				return errors.New("the pod exists")
			}
		}
		return nil
	}))
}

// TestSpecifiedScaleDown covers upstream's "specific scale down with lifecycle and then scale up with
// excludePreparingDelete enabled". A pod that waits for its hook does not count.
func TestSpecifiedScaleDown(t *testing.T) {
	s := begin(t)
	s.make(3, deadline(600), blocked, func(c *v1beta1.CloneSet) { c.Spec.ScaleStrategy.ExcludePreparingDelete = true })
	before := s.see("three pods", all(allReady(3), reason(v1alpha1.ReasonAvailable))).pods
	name := before[2].Name
	s.edit(replicas(2), func(c *v1beta1.CloneSet) { c.Spec.ScaleStrategy.PodsToDelete = []string{name} })
	s.see("the pod waits for its hook", all(states(kruise.StatePreparingDelete, 1), states(kruise.StateNormal, 2), kept(before, 3)))
	s.edit(replicas(3))
	s.see("one more is created", all(numbers(4, 4, 4, 4), states(kruise.StatePreparingDelete, 1), states(kruise.StateNormal, 3), kept(before, 3)))
	s.editPod(name, release)
	s.see("the pod is gone, and its name is removed from podsToDelete", all(allReady(3), none, kept(before, 2), reason(v1alpha1.ReasonAvailable), func(v view) error {
		if names := v.set.Spec.ScaleStrategy.PodsToDelete; len(names) > 0 {
			return fmt.Errorf("podsToDelete %v", names)
		}
		return nil
	}))
}

// TestOnDelete covers upstream's "changes pods only when updateStrategy type is OnDelete". Pods created after
// the change have the new template; of surplus pods, outdated ones are deleted first.
func TestOnDelete(t *testing.T) {
	s := begin(t)
	s.make(5, deadline(600), func(c *v1beta1.CloneSet) { c.Spec.UpdateStrategy.Type = v1beta1.OnDelete })
	before := s.see("five pods", all(allReady(5), reason(v1alpha1.ReasonAvailable))).pods
	s.edit(image("main:2"))
	s.see("the template has changed", numbers(5, 5, 0, 0))
	s.stays("no pod is changed", all(kept(before, 5), numbers(5, 5, 0, 0)))

	s.remove(before[0].Name, before[1].Name)
	v := s.see("two are new", all(numbers(5, 5, 2, 2), kept(before, 3), none))
	if n := len(of(v, v.set.Status.UpdateRevision)); n != 2 {
		t.Errorf("%d pods are of the new revision", n)
	}
	s.edit(replicas(3))
	s.see("outdated ones are deleted first", all(numbers(3, 3, 2, 2), kept(before, 1), none))
	s.edit(replicas(5))
	v = s.see("new ones are created", all(numbers(5, 5, 4, 4), kept(before, 1)))
	old := of(v, v.set.Status.CurrentRevision)
	if len(old) != 1 {
		t.Fatalf("%d pods are of the old revision\n%s", len(old), s.picture())
	}
	s.remove(old[0].Name)
	s.see("all are new", all(allReady(5), none, reason(v1alpha1.ReasonAvailable)))
}
