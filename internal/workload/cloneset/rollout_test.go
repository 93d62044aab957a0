package cloneset

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// updatedPods returns how many active pods have the template's revision.
func (w *world) updatedPods() (n int) {
	for _, p := range w.active() {
		if p.revision == w.set.Status.UpdateRevision {
			n++
		}
	}
	return n
}

// TestPartition checks that partition pods keep the old template, with percentages rounded up, and that less
// than 100% updates at least one pod.
func TestPartition(t *testing.T) {
	for _, c := range []struct {
		partition intstr.IntOrString
		updated   int
	}{{number(0), 5}, {number(2), 3}, {number(5), 0}, {number(9), 0}, {percent("40%"), 3}, {percent("41%"), 2}, {percent("99%"), 1}, {percent("100%"), 0}, {percent("0%"), 5}} {
		for _, kind := range []v1alpha1.CloneSetUpdateStrategyType{v1alpha1.ReCreate, v1alpha1.InPlaceIfPossible} {
			w := newRunningWorld(t, 5, strategy(kind))
			w.edit(image("web:2"), partition(c.partition))
			w.settle()
			if got := w.updatedPods(); got != c.updated || int(w.set.Status.ExpectedUpdatedReplicas) != c.updated {
				t.Errorf("%s, partition %s: %d are updated, %d expected by the status, not %d", kind, c.partition.String(), got, w.set.Status.ExpectedUpdatedReplicas, c.updated)
			}
		}
	}
}

// TestPartitionOfNewPods checks that new pods respect the partition.
func TestPartitionOfNewPods(t *testing.T) {
	w := newRunningWorld(t, 4)
	w.edit(image("web:2"), partition(number(2)))
	w.settle()
	w.edit(replicas(6), partition(number(3)))
	w.settle()
	if got := w.updatedPods(); got != 3 {
		t.Errorf("%d of six are updated, with a partition of 3", got)
	}
}

// TestPartitionRollback checks that pods beyond the partition return to the current revision with the
// annotation, and stay as they are without it.
func TestPartitionRollback(t *testing.T) {
	for back, want := range map[string]int{"": 3, "true": 1} {
		w := newRunningWorld(t, 4, inPlace)
		w.set.Annotations = map[string]string{AnnotationPartitionRollback: back}
		w.edit(image("web:2"), partition(number(1)))
		w.settle()
		w.edit(partition(number(3)))
		w.settle()
		if got := w.updatedPods(); got != want {
			t.Errorf("annotation %q: %d are updated, not %d", back, got, want)
		}
	}
}

// TestSurge checks that maxSurge additional pods are created before old ones are deleted, from the start to
// the end of the update.
func TestSurge(t *testing.T) {
	w := newRunningWorld(t, 6, maxUnavailable(number(0)), maxSurge(number(2)))
	w.edit(image("web:2"))
	w.expect("create revision")
	rounds := 0
	for w.updatedPods() < 6 || len(w.active()) > 6 {
		if d := w.plan(); d.Tally.Created != 0 && d.Tally.Created != 2 {
			t.Errorf("want two creates at a time, got: %s", w.acts(d))
		}
		w.carryOut(w.checkedPlan())
		w.runKubelet()
		if rounds++; rounds > 40 {
			t.Fatal("it takes too long")
		}
	}
}

// TestNoSurgeInPlace checks that updates in place need no surge, unless maxUnavailable is 0.
func TestNoSurgeInPlace(t *testing.T) {
	w := newRunningWorld(t, 3, inPlace, maxUnavailable(number(1)), maxSurge(number(1)))
	w.edit(image("web:2"))
	w.expect("create revision")
	if d := w.plan(); d.Tally.Created != 0 || d.Tally.Updated != 1 {
		t.Errorf("%s", w.acts(d))
	}
	w.settle()
	if w.updatedPods() != 3 || w.pod(3) != nil {
		t.Errorf("pods %v", sorted(w.pods))
	}
	w.edit(maxUnavailable(number(0)), image("web:3"))
	w.expect("create revision")
	w.expect("create 3")
	w.settle()
	if w.updatedPods() != 3 || len(w.active()) != 3 {
		t.Errorf("%d are updated, pods %v", w.updatedPods(), sorted(w.pods))
	}
}

// TestMaxUnavailableOfUpdates checks that an update makes at most maxUnavailable pods unavailable, and updates
// unavailable pods first.
func TestMaxUnavailableOfUpdates(t *testing.T) {
	for _, kind := range []v1alpha1.CloneSetUpdateStrategyType{v1alpha1.ReCreate, v1alpha1.InPlaceIfPossible} {
		w := newWorld(t, 4, strategy(kind), maxUnavailable(number(2)))
		w.behaves = func(p *corev1.Pod) behaviour {
			if p.Name == w.name(2) && p.Spec.Containers[0].Image == "web:1" {
				return behaviour{unready: []string{"main"}}
			}
			return behaviour{}
		}
		w.settle()
		w.edit(image("web:2"))
		w.expect("create revision")
		d := w.plan()
		if d.Tally.Updated+d.Tally.Deleted != 2 || !strings.Contains(strings.Split(w.acts(d), ",")[0], " 2") {
			t.Errorf("%s: %s", kind, w.acts(d))
		}
		w.settle()
		if w.updatedPods() != 4 || w.set.Status.AvailableReplicas != 4 {
			t.Errorf("%s: %d are updated, status %+v", kind, w.updatedPods(), w.set.Status)
		}
	}
}

// TestRejectedPodDoesNotStopUpdate checks that a pod whose update the API rejects uses up no budget that other pods need, and is updated when the API accepts
// that. As the first of the order in each plan, it would stop the update (openkruise/kruise has no such rule).
func TestRejectedPodDoesNotStopUpdate(t *testing.T) {
	w := newRunningWorld(t, 4, inPlace, maxUnavailable(number(1)))
	var bad types.UID
	denied := true
	w.rejects = func(a *workload.Action) bool {
		if bad == "" {
			bad = a.Object.GetUID() // the first pod that is updated
		}
		if !denied || a.Object.GetUID() != bad {
			return false
		}
		w.past.Rejected = map[types.UID]bool{bad: true} // as the controller remembers it
		return true
	}
	w.edit(image("web:2"))
	for range 12 {
		w.runKubelet()
		w.carryOut(w.plan())
	}
	if n := w.updatedPods(); n != 3 || bad == "" {
		t.Errorf("%d are updated, want all but one", n)
	}
	denied, w.past.Rejected = false, nil
	w.settle()
	if n := w.updatedPods(); n != 4 {
		t.Errorf("%d are updated in the end", n)
	}
}

// TestStuckUpdateStops checks that an update stops while its new pods do not become available, and that
// another template continues it with those pods first.
func TestStuckUpdateStops(t *testing.T) {
	for _, kind := range []v1alpha1.CloneSetUpdateStrategyType{v1alpha1.ReCreate, v1alpha1.InPlaceIfPossible} {
		w := newWorld(t, 5, strategy(kind), maxUnavailable(number(2)))
		w.behaves = func(p *corev1.Pod) behaviour {
			if p.Spec.Containers[0].Image == "web:bad" {
				return behaviour{unready: []string{"main"}}
			}
			return behaviour{}
		}
		w.settle()
		w.edit(image("web:bad"))
		w.settle()
		if w.updatedPods() != 2 || w.set.Status.AvailableReplicas != 3 {
			t.Errorf("%s: %d are updated, status %+v", kind, w.updatedPods(), w.set.Status)
		}
		w.edit(image("web:good"))
		w.settle()
		if w.updatedPods() != 5 || w.set.Status.AvailableReplicas != 5 {
			t.Errorf("%s: %d are updated, status %+v", kind, w.updatedPods(), w.set.Status)
		}
	}
}

// TestPaused checks that a paused set updates no pod, and still creates and deletes pods.
func TestPaused(t *testing.T) {
	w := newRunningWorld(t, 3, paused(true))
	w.edit(image("web:2"))
	w.settle()
	if w.updatedPods() != 0 {
		t.Errorf("%d are updated", w.updatedPods())
	}
	w.specify(0)
	uid := w.pod(0).UID
	w.edit(replicas(4))
	w.settle()
	if p := w.pod(0); len(w.active()) != 4 || p != nil && p.UID == uid {
		t.Errorf("pods %v", sorted(w.pods))
	}
	w.edit(paused(false))
	w.settle()
	if w.updatedPods() != 4 {
		t.Errorf("%d are updated", w.updatedPods())
	}
}

// TestOnDelete checks that pods get the new template when another client has deleted the old ones.
func TestOnDelete(t *testing.T) {
	w := newRunningWorld(t, 3, strategy(v1alpha1.OnDelete))
	w.edit(image("web:2"))
	w.settle()
	if w.updatedPods() != 0 {
		t.Errorf("%d are updated", w.updatedPods())
	}
	w.remove(1)
	w.settle()
	if w.updatedPods() != 1 || len(w.active()) != 3 {
		t.Errorf("%d are updated, pods %v", w.updatedPods(), sorted(w.pods))
	}
	w.edit(replicas(2))
	w.settle()
	if w.updatedPods() != 1 || len(w.active()) != 2 {
		t.Errorf("%d are updated, pods %v", w.updatedPods(), sorted(w.pods))
	}
}

// TestInPlaceOnly checks that a condition reports a change that cannot be made in place and that no pod is
// deleted, and that the condition is removed with a template that can.
func TestInPlaceOnly(t *testing.T) {
	w := newRunningWorld(t, 2, strategy(v1alpha1.InPlaceOnly))
	w.edit(func(s *v1alpha1.CloneSetSpec) { s.Template.Spec.Containers[0].Command = []string{"run"} })
	w.settle()
	c := condition(&w.set.Status, v1alpha1.FailedUpdate)
	if c == nil || c.Reason != "NotInPlace" || !strings.Contains(c.Message, "spec.template.spec.containers[0]: more than image and resources") || len(w.active()) != 2 || w.updatedPods() != 0 {
		t.Fatalf("condition %+v, %d updated", c, w.updatedPods())
	}
	w.edit(func(s *v1alpha1.CloneSetSpec) { s.Template.Spec.Containers[0].Command = nil }, image("web:2"))
	w.settle()
	if c := condition(&w.set.Status, v1alpha1.FailedUpdate); c != nil || w.updatedPods() != 2 {
		t.Errorf("condition %+v, %d updated", c, w.updatedPods())
	}
}

// TestRolledBackWhilePreparing checks that a pod that waits for an update that is not wanted any more returns
// to its state, whether the hook blocks it or not, and is ready again (kruise #1156).
func TestRolledBackWhilePreparing(t *testing.T) {
	for name, obeys := range map[string]bool{"blocked": false, "released": true} {
		t.Run(name, func(t *testing.T) {
			hook := &kruise.LifecycleHook{LabelsHandler: map[string]string{"hold": "yes"}, MarkPodNotReady: true}
			w := newRunningWorld(t, 2, inPlace, lifecycle(kruise.Lifecycle{InPlaceUpdate: hook}), withLabel("hold", "yes"))
			w.edit(image("web:2"))
			w.settle()
			var waits string
			for _, p := range w.active() {
				if p.state == kruise.StatePreparingUpdate {
					waits = p.Name
				}
			}
			if c := conditionOf(w.pods[waits], kruise.ConditionPodReady); c.Status != corev1.ConditionFalse || !strings.Contains(c.Message, preUpdateKey) {
				t.Fatalf("pod %q, condition %+v", waits, c)
			}
			if obeys {
				w.completeHooks(waits)
			}
			w.edit(image("web:1"))
			w.settle()
			want := kruise.StateNormal
			if obeys {
				want = kruise.StateUpdated // until it has its handlers again
			}
			p := w.pods[waits]
			if c := conditionOf(p, kruise.ConditionPodReady); p.Labels[kruise.LabelState] != string(want) || c.Status != corev1.ConditionTrue || c.Message != "" {
				t.Errorf("state %s, condition %+v", p.Labels[kruise.LabelState], c)
			}
			w.settleWithHooks()
			if p := w.pods[waits]; p.Labels[kruise.LabelState] != string(kruise.StateNormal) || p.Status.ContainerStatuses[0].RestartCount != 0 || conditionOf(p, string(corev1.PodReady)).Status != corev1.ConditionTrue {
				t.Errorf("the pod is %s with %+v", p.Labels[kruise.LabelState], p.Status)
			}
		})
	}
}

// TestWakesInTime checks that the plan wakes when a pod becomes available, and not a whole minReadySeconds
// later.
func TestWakesInTime(t *testing.T) {
	w := newRunningWorld(t, 2, maxUnavailable(number(1)), func(s *v1alpha1.CloneSetSpec) { s.MinReadySeconds = 10 })
	w.pass(10 * time.Second)
	w.edit(image("web:2"))
	w.settle() // one pod is new, and ready
	w.now = w.now.Add(3 * time.Second)
	if d := w.expect(""); d.Wake != 7*time.Second {
		t.Errorf("wake %s", d.Wake)
	}
	w.now = w.now.Add(7 * time.Second)
	if d := w.plan(); d.Tally.Deleted != 1 {
		t.Errorf("%s", w.acts(d))
	}
}

// TestSuccessorIsTheUpdatedOne checks that a pod that waits for its preDelete hook does not count as one that
// the partition keeps, and that its successor is the updated pod: no other pod is deleted meanwhile, however
// long the hook takes. Only a set that excludes such pods creates the successor at once.
func TestSuccessorIsTheUpdatedOne(t *testing.T) {
	for _, excludes := range []bool{false, true} {
		hook := &kruise.LifecycleHook{LabelsHandler: map[string]string{"undrained": "yes"}}
		w := newRunningWorld(t, 2, partition(percent("99%")), maxUnavailable(percent("100%")), lifecycle(kruise.Lifecycle{PreDelete: hook}), func(s *v1alpha1.CloneSetSpec) {
			s.Template.Labels["undrained"] = "yes"
		})
		if excludes {
			w.set.Labels = map[string]string{kruise.LabelExcludePreparingDelete: "true"}
		}
		w.edit(toDelete(w.name(0)))
		w.settle()
		kept := w.pod(1).UID
		w.edit(image("web:2"))
		w.settle()
		updated := 0
		if excludes {
			updated = 1
		}
		if got := w.stateOf(0); got != kruise.StatePreparingDelete || w.updatedPods() != updated {
			t.Errorf("excludes %t: it is %s, and %d pods are updated", excludes, got, w.updatedPods())
		}
		w.settleWithHooks()
		if w.pod(0) != nil || w.pod(1) == nil || w.pod(1).UID != kept || w.updatedPods() != 1 || len(w.active()) != 2 {
			t.Errorf("excludes %t: pods %s, %d of them updated", excludes, w.states(), w.updatedPods())
		}
	}
}
