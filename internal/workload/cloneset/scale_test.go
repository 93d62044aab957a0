package cloneset

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
)

func toDelete(names ...string) func(*v1alpha1.CloneSetSpec) {
	return func(s *v1alpha1.CloneSetSpec) { s.ScaleStrategy.PodsToDelete = names }
}

// specify asks for the deletion of a pod, by its label.
func (w *world) specify(slot int) {
	w.t.Helper()
	w.change(slot, func(p *corev1.Pod) { p.Labels[kruise.LabelSpecifiedDelete] = "true" })
}

// TestSuccessorOfANamedPod: a pod of podsToDelete is replaced by one of another name. One of
// the same name would be deleted too, for as long as the name is in the list.
func TestSuccessorOfANamedPod(t *testing.T) {
	w := grown(t, 2)
	w.edit(toDelete(w.name(0)))
	w.expect("delete 0")
	w.runKubelet()
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

// TestSpecifiedDelete: the label and the list ask for the same. With the number as it is
// the pod is replaced; with one less it is the one that goes.
func TestSpecifiedDelete(t *testing.T) {
	for name, ask := range map[string]func(*world){
		"label": func(w *world) { w.specify(1) },
		"list":  func(w *world) { w.edit(toDelete(w.name(1))) },
		"both":  func(w *world) { w.specify(1); w.edit(toDelete(w.name(1))) },
	} {
		t.Run(name, func(t *testing.T) {
			w := grown(t, 3)
			ask(w)
			w.expect("delete 1")
			w.settle()
			if len(w.active()) != 3 || w.pod(0) == nil || w.pod(2) == nil {
				t.Errorf("pods %v", sorted(w.pods))
			}
			w = grown(t, 3)
			ask(w)
			w.edit(replicas(2))
			w.expect("delete 1")
			w.settle()
			if len(w.active()) != 2 || w.pod(0) == nil || w.pod(2) == nil {
				t.Errorf("pods %v", sorted(w.pods))
			}
		})
	}
}

// TestSpecifiedDeleteKeepsTheOthers: as many available pods stay as maxUnavailable asks for,
// and with surge the successor is made first.
func TestSpecifiedDeleteKeepsTheOthers(t *testing.T) {
	w := grown(t, 3, maxUnavailable(number(1)))
	w.specify(0)
	w.specify(1)
	d := w.plan()
	if d.Tally.Deleted != 1 {
		t.Errorf("of two at most one can be missed: %s", w.acts(d))
	}
	w = grown(t, 3, maxUnavailable(number(0)), maxSurge(number(1)))
	w.specify(0)
	w.expect("create 3")
	w.settle()
	if len(w.active()) != 3 || w.pod(0) != nil || w.pod(3) == nil {
		t.Errorf("pods %v", sorted(w.pods))
	}
}

// TestSpecifiedDeleteWhilePaused: an update that is paused, or left to deletions, does not
// keep a pod whose deletion was asked for; and no pod is made for the update.
func TestSpecifiedDeleteWhilePaused(t *testing.T) {
	for name, still := range map[string]func(*v1alpha1.CloneSetSpec){
		"paused":   paused(true),
		"OnDelete": strategy(v1alpha1.OnDelete),
	} {
		t.Run(name, func(t *testing.T) {
			w := grown(t, 3, maxUnavailable(number(0)), maxSurge(number(2)), still)
			w.edit(image("web:2"))
			w.settle()
			if len(w.active()) != 3 {
				t.Errorf("pods %v", sorted(w.pods))
			}
			w.specify(0)
			w.expect("create 3")
			w.settle()
			if len(w.active()) != 3 || w.pod(0) != nil || w.pod(3) == nil {
				t.Errorf("pods %v", sorted(w.pods))
			}
		})
	}
}

// TestOrderOfDeletions: of too many pods those go first that are of least use: without a
// node, pending, not ready, cheap, and of the old revision as far as the partition lets.
func TestOrderOfDeletions(t *testing.T) {
	w := newWorld(t, 5, maxUnavailable(percent("100%")))
	bad := map[string]behaviour{w.name(1): {unready: []string{"main"}}, w.name(3): {unbound: true}}
	w.behaves = func(p *corev1.Pod) behaviour { return bad[p.Name] }
	w.settle()
	w.change(4, func(p *corev1.Pod) { p.Annotations[kruise.AnnotationDeletionCost] = "-10" })
	w.change(0, func(p *corev1.Pod) { p.Annotations[kruise.AnnotationDeletionCost] = "10" })
	for _, next := range []struct {
		replicas int32
		deletes  string
	}{{4, "delete 3"}, {3, "delete 1"}, {2, "delete 4"}, {1, "delete 2"}} {
		w.edit(replicas(next.replicas))
		w.expect(next.deletes)
		w.settle()
	}

	w = grown(t, 4)
	w.edit(image("web:2"), partition(number(2)))
	w.settle()
	w.edit(replicas(3))
	w.settle()
	updated := 0
	for _, p := range w.active() {
		if p.revision == w.set.Status.UpdateRevision {
			updated++
		}
	}
	if updated != 1 {
		t.Errorf("%d of three are updated, with a partition of 2", updated)
	}
}

// TestHeldPodsAreCancelled: a pod that waits for its preDelete hook, and is needed again,
// comes back, but not if somebody asked for its deletion; an update in place that had not
// ended goes on.
func TestHeldPodsAreCancelled(t *testing.T) {
	hold := func(s *v1alpha1.CloneSetSpec) {
		s.Template.Labels["hold"] = "yes"
		s.Lifecycle = &kruise.Lifecycle{PreDelete: &kruise.LifecycleHook{LabelsHandler: map[string]string{"hold": "yes"}}}
	}
	w := grown(t, 2, hold)
	w.change(1, func(p *corev1.Pod) { p.Annotations[kruise.AnnotationDeletionCost] = "-1" })
	w.edit(replicas(1))
	w.expect("PreparingDelete 1")
	w.edit(replicas(2))
	w.expect("PreparingNormal 1")
	w.settle()
	if w.stateOf(1) != kruise.StateNormal {
		t.Errorf("state %s", w.stateOf(1))
	}

	w.specify(1)
	w.edit(replicas(1))
	w.expect("PreparingDelete 1")
	w.edit(replicas(2))
	w.expect("") // it counts until it is gone
	w.change(1, func(p *corev1.Pod) { delete(p.Labels, "hold") })
	w.expect("delete 1")
	w.runKubelet()
	w.expect("create 1")
	w.settle()

	w = grown(t, 1, hold, inPlace)
	w.stuckAt("main")
	w.edit(image("web:2"))
	w.settle()
	w.edit(replicas(0))
	w.expect("PreparingDelete 0")
	w.edit(replicas(1))
	w.expect("Updating 0")
	w.stuckAt()
	w.settle()
	if w.runs(0) != "web:2 restarts=1" || w.stateOf(0) != kruise.StateNormal {
		t.Errorf("%s, %s", w.runs(0), w.stateOf(0))
	}
}

// TestMarkedPodsAreNotCancelled: with markPodNotReady in either hook a pod that waits for its preDelete
// hook goes, as with Kruise, although it is needed again; it is replaced when it is gone.
func TestMarkedPodsAreNotCancelled(t *testing.T) {
	for _, l := range []kruise.Lifecycle{
		{PreDelete: &kruise.LifecycleHook{LabelsHandler: map[string]string{"hold": "yes"}, MarkPodNotReady: true}},
		{PreDelete: &kruise.LifecycleHook{LabelsHandler: map[string]string{"hold": "yes"}}, InPlaceUpdate: &kruise.LifecycleHook{MarkPodNotReady: true}},
	} {
		w := grown(t, 2, lifecycle(l), func(s *v1alpha1.CloneSetSpec) { s.Template.Labels["hold"] = "yes" })
		w.change(1, func(p *corev1.Pod) { p.Annotations[kruise.AnnotationDeletionCost] = "-1" })
		w.edit(replicas(1))
		w.expect("PreparingDelete 1")
		want := corev1.ConditionTrue
		if l.PreDelete.MarkPodNotReady {
			want = corev1.ConditionFalse
		}
		w.edit(replicas(2))
		w.expect("")
		w.runKubelet()
		w.expect("")
		if c := conditionOf(w.pod(1), kruise.ConditionPodReady); c.Status != want {
			t.Errorf("condition %+v", c)
		}
		w.change(1, func(p *corev1.Pod) { delete(p.Labels, "hold") })
		w.expect("delete 1")
		w.runKubelet()
		w.expect("create 1")
	}
}

// TestHookHoldsNobodyUp: while one pod waits for its hook others are made and deleted.
func TestHookHoldsNobodyUp(t *testing.T) {
	w := grown(t, 3, lifecycle(kruise.Lifecycle{PreDelete: &kruise.LifecycleHook{FinalizersHandler: []string{"hold/it"}}}))
	w.change(0, func(p *corev1.Pod) {
		p.Finalizers = []string{"hold/it"}
		p.Labels[kruise.LabelSpecifiedDelete] = "true"
	})
	w.expect("PreparingDelete 0")
	w.change(1, func(p *corev1.Pod) { p.Annotations[kruise.AnnotationDeletionCost] = "-1" })
	w.edit(replicas(1))
	w.expect("delete 1")
	w.settle()
	w.edit(replicas(4))
	w.expect("create 1, create 3")
}

// TestExcludePreparingDelete: then pods that wait for their hook do not count, and others
// are made at once.
func TestExcludePreparingDelete(t *testing.T) {
	w := grown(t, 2, func(s *v1alpha1.CloneSetSpec) {
		s.Template.Labels["hold"] = "yes"
		s.Lifecycle = &kruise.Lifecycle{PreDelete: &kruise.LifecycleHook{LabelsHandler: map[string]string{"hold": "yes"}}}
	})
	w.set.Labels = map[string]string{kruise.LabelExcludePreparingDelete: "true"}
	w.specify(0)
	w.expect("PreparingDelete 0")
	w.expect("create 2")
	w.settle()
	if w.set.Status.Replicas != 3 {
		t.Errorf("status %+v", w.set.Status)
	}
}

// TestScaleMaxUnavailable: so many pods at most are unavailable while others are made, and
// the plan wakes when one of them is available.
func TestScaleMaxUnavailable(t *testing.T) {
	w := newWorld(t, 3, func(s *v1alpha1.CloneSetSpec) {
		s.ScaleStrategy.MaxUnavailable, s.MinReadySeconds = ptrTo(number(1)), 10
	})
	w.expect("create revision")
	w.expect("create 0")
	w.settle()
	if d := w.expect(""); d.Wake != 10*time.Second {
		t.Errorf("wake %s", d.Wake)
	}
	w.now = w.now.Add(4 * time.Second)
	if d := w.expect(""); d.Wake != 6*time.Second {
		t.Errorf("wake %s", d.Wake)
	}
	w.now = w.now.Add(6 * time.Second)
	w.expect("create 1")
}

// TestFailedPods: a pod that has finished is deleted, and another takes its place.
func TestFailedPods(t *testing.T) {
	w := grown(t, 2)
	w.fail(0)
	w.expect("delete 0, create 2")
	w.settle()
	if len(w.pods) != 2 {
		t.Errorf("pods %v", sorted(w.pods))
	}
}

// TestHooksOfDeletedPods: who is deleted by others goes through no hook, and is replaced
// while it still stops.
func TestHooksOfDeletedPods(t *testing.T) {
	w := grown(t, 2, lifecycle(kruise.Lifecycle{PreDelete: &kruise.LifecycleHook{LabelsHandler: map[string]string{"app": "web"}}}))
	w.behaves = func(*corev1.Pod) behaviour { return behaviour{stays: true} }
	w.remove(0)
	w.expect("create 2")
}

// TestChangeIsTriedAtOnce: pods that could not be made are waited with, but not once somebody
// has changed the set.
func TestChangeIsTriedAtOnce(t *testing.T) {
	w := grown(t, 1)
	w.edit(replicas(2))
	w.settle()
	w.remove(1)
	w.runKubelet()
	w.past.RetryAt, w.past.RetryOf, w.past.CreateLimit = w.now.Add(time.Hour), w.set.Generation, 1
	w.expect("")
	w.edit(image("web:2"))
	if d := w.plan(); !strings.Contains(w.acts(d), "create revision") {
		t.Errorf("%s", w.acts(d))
	} else {
		w.carryOut(d)
	}
	if d := w.plan(); d.Tally.Created != 1 {
		t.Errorf("%s, because %v", w.acts(d), d.Reasons)
	}
}

// TestMarkInTheTemplate: a template that says of its pods that they are to be deleted has pods
// made nevertheless, without that: else they would be made and deleted for ever.
func TestMarkInTheTemplate(t *testing.T) {
	w := newWorld(t, 1, withLabel(kruise.LabelSpecifiedDelete, "true"))
	w.settle()
	if pods := w.active(); len(pods) != 1 || pods[0].marked {
		t.Errorf("%s", w.states())
	}
}

// TestNoneMayBeMade: a set that lets no pod be made says so.
func TestNoneMayBeMade(t *testing.T) {
	none := func(s *v1alpha1.CloneSetSpec) { s.ScaleStrategy.MaxUnavailable = ptrTo(number(0)) }
	w := newWorld(t, 2, none)
	w.settle()
	if c := condition(&w.set.Status, v1alpha1.FailedScale); c == nil || c.Reason != "ScaleUpLimited" || !strings.Contains(c.Message, "2 pods are missing") {
		t.Errorf("%+v", c)
	}
	w.edit(func(s *v1alpha1.CloneSetSpec) { s.ScaleStrategy.MaxUnavailable = nil })
	w.settle()
	if c := condition(&w.set.Status, v1alpha1.FailedScale); c != nil || len(w.active()) != 2 {
		t.Errorf("%+v, %s", c, w.states())
	}
}
