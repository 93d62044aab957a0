package cloneset

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/rehearse-k8s/rehearse/api/apps"
	"github.com/rehearse-k8s/rehearse/api/apps/v1alpha1"
)

func toDelete(names ...string) func(*v1alpha1.CloneSetSpec) {
	return func(s *v1alpha1.CloneSetSpec) { s.ScaleStrategy.PodsToDelete = names }
}

// specify asks for the deletion of a pod, by its label.
func (w *world) specify(slot int) {
	w.t.Helper()
	w.change(slot, func(p *corev1.Pod) { p.Labels[apps.LabelSpecifiedDelete] = "true" })
}

// TestSuccessorOfANamedPod: a pod of podsToDelete is replaced by one of another name. One of
// the same name would be deleted too, for as long as the name is in the list.
func TestSuccessorOfANamedPod(t *testing.T) {
	w := grown(t, 2)
	w.edit(toDelete(w.name(0)))
	w.expect("delete 0")
	w.live()
	w.expect("create 2")
	w.settle()
	if names := w.set.Spec.ScaleStrategy.PodsToDelete; len(names) > 0 {
		t.Errorf("podsToDelete %v", names)
	}
	if len(w.active()) != 2 || w.pod(0) != nil {
		t.Errorf("pods %v", sorted(w.pods))
	}
	w.edit(replicas(3))
	w.expect("create 0") // the name is free again
}

// TestUselessAreNotCountedOn: pods whose deletion was asked for and that are not available
// are not among those that may be missed twice.
func TestUselessAreNotCountedOn(t *testing.T) {
	w := newWorld(t, 3, maxUnavailable(number(1)))
	w.behaves = func(p *corev1.Pod) behaviour {
		if p.Name == w.name(0) {
			return behaviour{unready: []string{"main"}}
		}
		return behaviour{}
	}
	w.settle()
	w.specify(0)
	w.specify(1)
	w.expect("delete 0") // and 1 when another is there for it
}
