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

// specify specifies a pod for deletion by its label.
func (w *world) specify(slot int) {
	w.t.Helper()
	w.change(slot, func(p *corev1.Pod) { p.Labels[kruise.LabelSpecifiedDelete] = "true" })
}

// TestSuccessorOfANamedPod checks that a pod in podsToDelete is replaced by one with another name. One with
// the same name would be deleted too while the name is in the list.
func TestSuccessorOfANamedPod(t *testing.T) {
	w := newRunningWorld(t, 2)
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
	w.expect("create 0") // the name is not in the list any more
}

// TestUnavailableAreNotCountedTwice checks that unavailable pods that are specified for deletion do not
// increase the number of pods that may become unavailable.
func TestUnavailableAreNotCountedTwice(t *testing.T) {
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
	w.expect("delete 0") // and 1 after its successor is available
}

// TestSpecifiedDelete checks that the label and the list have the same effect: with unchanged replicas the pod
// is replaced; with one replica less it is the one that is deleted.
func TestSpecifiedDelete(t *testing.T) {
	for name, ask := range map[string]func(*world){
		"label": func(w *world) { w.specify(1) },
		"list":  func(w *world) { w.edit(toDelete(w.name(1))) },
		"both":  func(w *world) { w.specify(1); w.edit(toDelete(w.name(1))) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newRunningWorld(t, 3)
			ask(w)
			w.expect("delete 1")
			w.settle()
			if len(w.active()) != 3 || w.pod(0) == nil || w.pod(2) == nil {
				t.Errorf("pods %v", sorted(w.pods))
			}
			w = newRunningWorld(t, 3)
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

// TestSpecifiedDeleteKeepsTheOthers checks that maxUnavailable also limits deletions that a user specified,
// and that with surge the successor is created first.
func TestSpecifiedDeleteKeepsTheOthers(t *testing.T) {
	w := newRunningWorld(t, 3, maxUnavailable(number(1)))
	w.specify(0)
	w.specify(1)
	d := w.plan()
	if d.Tally.Deleted != 1 {
		t.Errorf("want at most one of two deleted: %s", w.acts(d))
	}
	w = newRunningWorld(t, 3, maxUnavailable(number(0)), maxSurge(number(1)))
	w.specify(0)
	w.expect("create 3")
	w.settle()
	if len(w.active()) != 3 || w.pod(0) != nil || w.pod(3) == nil {
		t.Errorf("pods %v", sorted(w.pods))
	}
}

// TestSpecifiedDeleteWhilePaused checks that a paused or OnDelete update does not block the deletion that a
// user specified, and that no pod is created for the update.
func TestSpecifiedDeleteWhilePaused(t *testing.T) {
	for name, still := range map[string]func(*v1alpha1.CloneSetSpec){
		"paused":   paused(true),
		"OnDelete": strategy(v1alpha1.OnDelete),
	} {
		t.Run(name, func(t *testing.T) {
			w := newRunningWorld(t, 3, maxUnavailable(number(0)), maxSurge(number(2)), still)
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

// TestOrderOfDeletions checks the order in which surplus pods are deleted: without a node, pending, not ready,
// low deletion cost, and outdated ones as far as the partition allows.
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

	w = newRunningWorld(t, 4)
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

// TestBlockedPodsAreCancelled checks that the deletion of a pod that waits for its preDelete hook is cancelled
// if the pod is needed again, unless a user specified it, and that an unfinished update in place continues.
func TestBlockedPodsAreCancelled(t *testing.T) {
	hold := func(s *v1alpha1.CloneSetSpec) {
		s.Template.Labels["hold"] = "yes"
		s.Lifecycle = &kruise.Lifecycle{PreDelete: &kruise.LifecycleHook{LabelsHandler: map[string]string{"hold": "yes"}}}
	}
	w := newRunningWorld(t, 2, hold)
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

	w = newRunningWorld(t, 1, hold, inPlace)
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

// TestMarkedPodsAreNotCancelled checks that with markPodNotReady in either hook a pod that waits for its
// preDelete hook is deleted although it is needed again, as with Kruise, and is replaced when it is gone.
func TestMarkedPodsAreNotCancelled(t *testing.T) {
	for _, l := range []kruise.Lifecycle{
		{PreDelete: &kruise.LifecycleHook{LabelsHandler: map[string]string{"hold": "yes"}, MarkPodNotReady: true}},
		{PreDelete: &kruise.LifecycleHook{LabelsHandler: map[string]string{"hold": "yes"}}, InPlaceUpdate: &kruise.LifecycleHook{MarkPodNotReady: true}},
	} {
		w := newRunningWorld(t, 2, lifecycle(l), func(s *v1alpha1.CloneSetSpec) { s.Template.Labels["hold"] = "yes" })
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

// TestHookBlocksOnlyItsPod checks that other pods are created and deleted while one pod waits for its hook.
func TestHookBlocksOnlyItsPod(t *testing.T) {
	w := newRunningWorld(t, 3, lifecycle(kruise.Lifecycle{PreDelete: &kruise.LifecycleHook{FinalizersHandler: []string{"hold/it"}}}))
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

// TestExcludePreparingDelete checks that, with exclusion, pods that wait for their hook do not count, and
// others are created at once.
func TestExcludePreparingDelete(t *testing.T) {
	w := newRunningWorld(t, 2, func(s *v1alpha1.CloneSetSpec) {
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

// TestScaleMaxUnavailable checks that at most so many pods are unavailable while pods are created, and that
// the plan wakes when one of them becomes available.
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

// TestFailedPods checks that a finished pod is deleted and replaced.
func TestFailedPods(t *testing.T) {
	w := newRunningWorld(t, 2)
	w.fail(0)
	w.expect("delete 0, create 2")
	w.settle()
	if len(w.pods) != 2 {
		t.Errorf("pods %v", sorted(w.pods))
	}
}

// TestHooksOfDeletedPods checks that a pod that another client deletes passes no hook, and is replaced while
// it is terminating.
func TestHooksOfDeletedPods(t *testing.T) {
	w := newRunningWorld(t, 2, lifecycle(kruise.Lifecycle{PreDelete: &kruise.LifecycleHook{LabelsHandler: map[string]string{"app": "web"}}}))
	w.behaves = func(*corev1.Pod) behaviour { return behaviour{stays: true} }
	w.remove(0)
	w.expect("create 2")
}

// TestChangeIsTriedAtOnce checks that failed creates wait, but are tried at once after the set has changed.
func TestChangeIsTriedAtOnce(t *testing.T) {
	w := newRunningWorld(t, 1)
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
		t.Errorf("%s, reasons %v", w.acts(d), d.Reasons)
	}
}

// TestMarkInTheTemplate checks that a template with the label for deletion creates pods without the label:
// otherwise they would be deleted and created forever.
func TestMarkInTheTemplate(t *testing.T) {
	w := newWorld(t, 1, withLabel(kruise.LabelSpecifiedDelete, "true"))
	w.settle()
	if pods := w.active(); len(pods) != 1 || pods[0].marked {
		t.Errorf("%s", w.states())
	}
}

// TestNoPodMayBeCreated checks that the status reports that the spec allows no pod to be created.
func TestNoPodMayBeCreated(t *testing.T) {
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
