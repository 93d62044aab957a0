package cloneset

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/rehearse-k8s/rehearse/api/apps"
	"github.com/rehearse-k8s/rehearse/api/apps/v1alpha1"
)

func lifecycle(l apps.Lifecycle) func(*v1alpha1.CloneSetSpec) {
	return func(s *v1alpha1.CloneSetSpec) { s.Lifecycle = l.DeepCopy() }
}

// conditionOf is a condition of a pod, empty if it has none.
func conditionOf(p *corev1.Pod, kind string) (c corev1.PodCondition) {
	i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return string(c.Type) == kind })
	if i >= 0 {
		c = p.Status.Conditions[i]
	}
	return c
}

// TestConditionsAreCleared: when a pod is in traffic again its conditions say nothing of
// why it was not, and no plan tries again to take that away.
func TestConditionsAreCleared(t *testing.T) {
	hook := &apps.LifecycleHook{LabelsHandler: map[string]string{"hold": "yes"}, MarkPodNotReady: true}
	w := grown(t, 1, strategy(v1alpha1.InPlaceIfPossible), lifecycle(apps.Lifecycle{InPlaceUpdate: hook}), func(s *v1alpha1.CloneSetSpec) {
		s.Template.Labels["hold"] = "yes"
	})
	w.edit(image("web:2"))
	w.settle()
	if c := conditionOf(w.pod(0), apps.ConditionPodReady); c.Status != corev1.ConditionFalse || c.Message == "" {
		t.Fatalf("condition %+v", c)
	}
	w.obedient()
	for _, kind := range []string{apps.ConditionPodReady, apps.ConditionInPlaceUpdateReady} {
		if c := conditionOf(w.pod(0), kind); c.Status != corev1.ConditionTrue || c.Message != "" || c.Reason != "" {
			t.Errorf("condition %+v", c)
		}
	}
	w.expect("")
}
