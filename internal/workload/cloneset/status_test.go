package cloneset

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
)

func deadline(seconds int32) func(*v1alpha1.CloneSetSpec) {
	return func(s *v1alpha1.CloneSetSpec) { s.ProgressDeadlineSeconds = &seconds }
}

func paused(is bool) func(*v1alpha1.CloneSetSpec) {
	return func(s *v1alpha1.CloneSetSpec) { s.UpdateStrategy.Paused = is }
}

// progressing returns the reason of the condition Progressing, "" if there is none.
func (w *world) progressing() string {
	if c := condition(&w.set.Status, v1alpha1.Progressing); c != nil {
		return c.Reason
	}
	return ""
}

// TestPausedStatusIgnoresTime checks that the status of a paused set does not change with the time.
func TestPausedStatusIgnoresTime(t *testing.T) {
	w := newRunningWorld(t, 2, deadline(60))
	w.edit(paused(true), image("web:2"))
	w.settle()
	if got := w.progressing(); got != v1alpha1.ReasonPaused {
		t.Fatalf("reason %q", got)
	}
	w.now = w.now.Add(time.Hour)
	if d := w.plan(); d.Status != nil || d.Wake != 0 {
		t.Errorf("status %s, wake %s", asJSON(d.Status), d.Wake)
	}
	w.edit(paused(false))
	w.expect("delete 1") // the deadline starts now
	if got := w.progressing(); got != v1alpha1.ReasonUpdated {
		t.Errorf("reason %q", got)
	}
}

// TestProgressDeadline checks that the deadline starts at the last progress, not at the start of the update,
// and that DeadlineExceeded ends with the next progress.
func TestProgressDeadline(t *testing.T) {
	w := newWorld(t, 3, deadline(60), maxUnavailable(number(1)))
	good := map[types.UID]bool{}
	w.behaves = func(p *corev1.Pod) behaviour {
		if !good[p.UID] && p.Spec.Containers[0].Image == "web:bad" {
			return behaviour{unready: []string{"main"}}
		}
		return behaviour{}
	}
	w.settle()
	if got := w.progressing(); got != v1alpha1.ReasonAvailable {
		t.Fatalf("reason %q", got)
	}
	w.pass(time.Hour)
	w.edit(image("web:bad"))
	w.settle()
	if d := w.plan(); w.progressing() != v1alpha1.ReasonUpdated || d.Wake != time.Minute {
		t.Errorf("reason %q, wake %s", w.progressing(), d.Wake)
	}
	w.pass(50 * time.Second)
	for _, p := range w.active() {
		good[p.UID] = true
	}
	w.settle() // the first pod is ready, the second is created
	w.pass(59 * time.Second)
	if got := w.progressing(); got != v1alpha1.ReasonUpdated {
		t.Errorf("reason %q, although there was progress 59 s ago", got)
	}
	w.pass(time.Second)
	if c := condition(&w.set.Status, v1alpha1.Progressing); c.Reason != v1alpha1.ReasonDeadlineExceeded || c.Status != corev1.ConditionFalse {
		t.Errorf("condition %+v", c)
	}
	if d := w.plan(); d.Wake != 0 || d.Status != nil {
		t.Errorf("wake %s, status %s", d.Wake, asJSON(d.Status))
	}
	w.edit(image("web:good"))
	w.expect("create revision")
	w.carryOut(w.plan())
	if c := condition(&w.set.Status, v1alpha1.Progressing); c.Reason != v1alpha1.ReasonUpdated || c.Status != corev1.ConditionTrue {
		t.Errorf("a new template does not restart the deadline: condition %+v", c)
	}
	w.settle()
	if got := w.progressing(); got != v1alpha1.ReasonAvailable {
		t.Errorf("reason %q", got)
	}
}

// TestNoProgressDeadline checks that there is no condition without a deadline or with the largest number, and
// that an existing condition is removed.
func TestNoProgressDeadline(t *testing.T) {
	w := newRunningWorld(t, 1, deadline(60))
	w.edit(deadline(math.MaxInt32))
	w.settle()
	if got := w.progressing(); got != "" {
		t.Errorf("reason %q", got)
	}
	w.edit(deadline(60))
	w.settle()
	w.edit(func(s *v1alpha1.CloneSetSpec) { s.ProgressDeadlineSeconds = nil })
	w.settle()
	if got := w.progressing(); got != "" {
		t.Errorf("reason %q", got)
	}
}

// TestDeadlineAllowsForWaits checks that waits that the user configured do not count as a lack of progress.
func TestDeadlineAllowsForWaits(t *testing.T) {
	w := newRunningWorld(t, 2, deadline(6), func(s *v1alpha1.CloneSetSpec) { s.UpdateStrategy.Type = v1alpha1.OnDelete })
	w.edit(image("web:2"))
	w.settle()
	w.pass(time.Hour)
	if c := condition(&w.set.Status, v1alpha1.Progressing); c.Reason != v1alpha1.ReasonUpdated || c.Status != corev1.ConditionTrue {
		t.Errorf("OnDelete: %+v", c)
	}
	w = newRunningWorld(t, 1, deadline(6), inPlace, func(s *v1alpha1.CloneSetSpec) {
		s.UpdateStrategy.InPlaceUpdateStrategy = &kruise.InPlaceUpdateStrategy{GracePeriodSeconds: 20}
	})
	w.edit(image("web:2"))
	w.settle()
	w.pass(19 * time.Second)
	if got := w.progressing(); got != v1alpha1.ReasonUpdated {
		t.Errorf("within the grace period: %s", got)
	}
	w.pass(time.Second)
	if got := w.progressing(); got != v1alpha1.ReasonAvailable {
		t.Errorf("after the grace period: %s", got)
	}
}

// TestPartitionAvailable checks that the deadline ends when as many pods as the partition allows are updated
// and available.
func TestPartitionAvailable(t *testing.T) {
	w := newRunningWorld(t, 4, deadline(60))
	w.edit(image("web:2"), partition(percent("50%")))
	w.settle()
	if got := w.progressing(); got != v1alpha1.ReasonPartitionAvailable {
		t.Errorf("reason %q", got)
	}
	if d := w.plan(); d.Wake != 0 {
		t.Errorf("wake %s", d.Wake)
	}
	w.edit(partition(number(0)))
	w.settle()
	if got := w.progressing(); got != v1alpha1.ReasonAvailable {
		t.Errorf("reason %q", got)
	}
}

// TestFailures checks that the status reports failed writes, and stops when they succeed.
func TestFailures(t *testing.T) {
	w := newRunningWorld(t, 1)
	w.past.ScaleError, w.past.UpdateError = "no quota", "no luck"
	w.settle()
	for kind, message := range map[v1alpha1.CloneSetConditionType]string{v1alpha1.FailedScale: "no quota", v1alpha1.FailedUpdate: "no luck"} {
		if c := condition(&w.set.Status, kind); c == nil || c.Message != message || c.Status != corev1.ConditionTrue {
			t.Errorf("condition %+v", c)
		}
	}
	w.past.ScaleError = "no more quota"
	w.settle()
	if c := condition(&w.set.Status, v1alpha1.FailedScale); c.Message != "no more quota" {
		t.Errorf("condition %+v", c)
	}
	w.past.ScaleError, w.past.UpdateError = "", ""
	w.settle()
	if len(w.set.Status.Conditions) > 0 {
		t.Errorf("conditions %+v", w.set.Status.Conditions)
	}
}

// TestStatusPause checks that changed numbers of pods wait, and that changes that users wait for are written
// at once.
func TestStatusPause(t *testing.T) {
	w := newRunningWorld(t, 3)
	w.limits.StatusPause = time.Second
	w.past.StatusAt = w.now
	w.change(0, func(p *corev1.Pod) { w.condition(p, corev1.PodReady, false) })
	w.now = w.now.Add(400 * time.Millisecond)
	if d := w.expect(""); d.Status != nil || d.Wake != 600*time.Millisecond {
		t.Errorf("status %s, wake %s", asJSON(d.Status), d.Wake)
	}
	w.now = w.now.Add(600 * time.Millisecond)
	if d := w.expect(""); d.Status == nil || d.Status.ReadyReplicas != 2 {
		t.Errorf("status %s", asJSON(d.Status))
	}
	w.runKubelet()
	if d := w.expect(""); d.Status == nil || d.Status.ReadyReplicas != 3 {
		t.Errorf("all are available, and the status waits: %s", asJSON(d.Status))
	}
	w.edit(image("web:2"))
	if d := w.plan(); d.Status == nil || d.Status.ObservedGeneration != w.set.Generation {
		t.Errorf("a new generation is observed, and the status waits: %s", asJSON(d.Status))
	}
}

// TestStatusCounts checks that finished and terminating pods do not count, and that ready pods that are not
// Normal, or ready for too short a time, are not available.
func TestStatusCounts(t *testing.T) {
	w := newWorld(t, 5, func(s *v1alpha1.CloneSetSpec) { s.MinReadySeconds = 10 })
	w.behaves = func(*corev1.Pod) behaviour { return behaviour{stays: true} }
	w.settle()
	w.now = w.now.Add(10 * time.Second)
	w.fail(0)
	w.remove(1)
	w.change(2, func(p *corev1.Pod) { p.Labels[kruise.LabelState] = string(kruise.StateUpdated) })
	w.change(3, func(p *corev1.Pod) { w.condition(p, corev1.PodReady, false) })
	s := w.plan().Status
	if s == nil || s.Replicas != 3 || s.ReadyReplicas != 2 || s.AvailableReplicas != 1 || s.UpdatedReplicas != 3 || s.UpdatedReadyReplicas != 2 || s.UpdatedAvailableReplicas != 1 {
		t.Errorf("status %s", asJSON(s))
	}
}
