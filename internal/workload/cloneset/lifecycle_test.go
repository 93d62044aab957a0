package cloneset

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
)

func lifecycle(l kruise.Lifecycle) func(*v1alpha1.CloneSetSpec) {
	return func(s *v1alpha1.CloneSetSpec) { s.Lifecycle = l.DeepCopy() }
}

// conditionOf returns a condition of a pod, the zero value if the pod does not have it.
func conditionOf(p *corev1.Pod, kind string) (c corev1.PodCondition) {
	i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return string(c.Type) == kind })
	if i >= 0 {
		c = p.Status.Conditions[i]
	}
	return c
}

// TestConditionsAreCleared checks that the conditions of a pod that is ready again have no message left, and
// that no plan removes the message again.
func TestConditionsAreCleared(t *testing.T) {
	hook := &kruise.LifecycleHook{LabelsHandler: map[string]string{"hold": "yes"}, MarkPodNotReady: true}
	w := newRunningWorld(t, 1, strategy(v1alpha1.InPlaceIfPossible), lifecycle(kruise.Lifecycle{InPlaceUpdate: hook}), func(s *v1alpha1.CloneSetSpec) {
		s.Template.Labels["hold"] = "yes"
	})
	w.edit(image("web:2"))
	w.settle()
	if c := conditionOf(w.pod(0), kruise.ConditionPodReady); c.Status != corev1.ConditionFalse || c.Message == "" {
		t.Fatalf("condition %+v", c)
	}
	w.settleWithHooks()
	for _, kind := range []string{kruise.ConditionPodReady, kruise.ConditionInPlaceUpdateReady} {
		if c := conditionOf(w.pod(0), kind); c.Status != corev1.ConditionTrue || c.Message != "" || c.Reason != "" {
			t.Errorf("condition %+v", c)
		}
	}
	w.expect("")
}

// TestPreNormal checks that a new pod waits for all handlers of its hook or, without a hook, for a node.
func TestPreNormal(t *testing.T) {
	w := newWorld(t, 1)
	w.behaves = func(*corev1.Pod) behaviour { return behaviour{unbound: true} }
	w.settle()
	if w.stateOf(0) != kruise.StatePreparingNormal {
		t.Errorf("without a node it is %s", w.stateOf(0))
	}
	w.behaves = nil
	w.settle()
	if w.stateOf(0) != kruise.StateNormal || w.set.Status.AvailableReplicas != 1 {
		t.Errorf("on a node it is %s", w.stateOf(0))
	}

	w = newRunningWorld(t, 1, lifecycle(kruise.Lifecycle{PreNormal: &kruise.LifecycleHook{LabelsHandler: map[string]string{"in": "yes"}, FinalizersHandler: []string{"in/it"}}}))
	for _, step := range []func(*corev1.Pod){
		func(p *corev1.Pod) { p.Labels["in"] = "no" },
		func(p *corev1.Pod) { p.Finalizers = []string{"in/it"} },
	} {
		w.change(0, step)
		w.settle()
		if w.stateOf(0) != kruise.StatePreparingNormal || w.set.Status.AvailableReplicas != 0 || w.set.Status.ReadyReplicas != 1 {
			t.Errorf("with an incomplete hook it is %s, status %+v", w.stateOf(0), w.set.Status)
		}
	}
	w.change(0, func(p *corev1.Pod) { p.Labels["in"] = "yes" })
	w.settle()
	if w.stateOf(0) != kruise.StateNormal || w.set.Status.AvailableReplicas != 1 {
		t.Errorf("with a complete hook it is %s, status %+v", w.stateOf(0), w.set.Status)
	}
}

// TestInPlaceHook checks that any handler blocks a pod before its update, and that after the update the pod
// waits for all of them; for labels and finalizers.
func TestInPlaceHook(t *testing.T) {
	hook := &kruise.LifecycleHook{LabelsHandler: map[string]string{"hold": "yes"}, FinalizersHandler: []string{"hold/it"}}
	w := newRunningWorld(t, 1, inPlace, lifecycle(kruise.Lifecycle{InPlaceUpdate: hook}), func(s *v1alpha1.CloneSetSpec) {
		s.Template.Labels["hold"], s.Template.Finalizers = "yes", []string{"hold/it"}
	})
	w.edit(image("web:2"))
	for _, step := range []struct {
		change func(*corev1.Pod)
		state  kruise.LifecycleState
		image  string
	}{
		{func(*corev1.Pod) {}, kruise.StatePreparingUpdate, "web:1"},
		{func(p *corev1.Pod) { delete(p.Labels, "hold") }, kruise.StatePreparingUpdate, "web:1"},
		{func(p *corev1.Pod) { p.Finalizers = nil }, kruise.StateUpdated, "web:2"},
		{func(p *corev1.Pod) { p.Labels["hold"] = "yes" }, kruise.StateUpdated, "web:2"},
		{func(p *corev1.Pod) { p.Finalizers = []string{"hold/it"} }, kruise.StateNormal, "web:2"},
	} {
		w.change(0, step.change)
		w.settle()
		if got := w.pod(0).Spec.Containers[0].Image; w.stateOf(0) != step.state || got != step.image {
			t.Errorf("it is %s with %s, not %s with %s", w.stateOf(0), got, step.state, step.image)
		}
	}
}

// TestPausedReleases checks that no pod stays unavailable for a paused update: neither one that the hook
// blocks, nor one that it does not block any more, nor one whose hook was removed.
func TestPausedReleases(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*world)
		state  kruise.LifecycleState
	}{
		"held":     {func(*world) {}, kruise.StateNormal},
		"released": {func(w *world) { w.change(0, func(p *corev1.Pod) { delete(p.Labels, "hold") }) }, kruise.StateUpdated},
		"unhooked": {func(w *world) { w.edit(lifecycle(kruise.Lifecycle{})) }, kruise.StateNormal},
	} {
		t.Run(name, func(t *testing.T) {
			hook := &kruise.LifecycleHook{LabelsHandler: map[string]string{"hold": "yes"}, MarkPodNotReady: true}
			w := newRunningWorld(t, 1, inPlace, lifecycle(kruise.Lifecycle{InPlaceUpdate: hook}), func(s *v1alpha1.CloneSetSpec) { s.Template.Labels["hold"] = "yes" })
			w.edit(image("web:2"))
			w.settle()
			w.edit(paused(true))
			c.before(w)
			w.settle()
			if w.stateOf(0) != c.state || conditionOf(w.pod(0), kruise.ConditionPodReady).Status != corev1.ConditionTrue {
				t.Errorf("it is %s, conditions %s", w.stateOf(0), asJSON(w.pod(0).Status.Conditions))
			}
			w.settleWithHooks()
			if w.runs(0) != "web:1 restarts=0" || w.set.Status.AvailableReplicas != 1 {
				t.Errorf("it runs %s, %d are available", w.runs(0), w.set.Status.AvailableReplicas)
			}
			w.edit(paused(false))
			w.settleWithHooks()
			if w.runs(0) != "web:2 restarts=1" || w.set.Status.AvailableReplicas != 1 {
				t.Errorf("it runs %s, %d are available", w.runs(0), w.set.Status.AvailableReplicas)
			}
		})
	}
}

// TestUpdatedIsAskedAgain checks that an Updated pod without all its handlers gets them again before its next
// update.
func TestUpdatedIsAskedAgain(t *testing.T) {
	hook := &kruise.LifecycleHook{LabelsHandler: map[string]string{"hold": "yes"}, FinalizersHandler: []string{"hold/it"}}
	w := newRunningWorld(t, 1, inPlace, lifecycle(kruise.Lifecycle{InPlaceUpdate: hook}))
	w.edit(image("web:2"))
	w.settle()
	if w.stateOf(0) != kruise.StateUpdated {
		t.Fatalf("it is %s", w.stateOf(0))
	}
	w.edit(image("web:3"))
	w.settle()
	if p := w.pod(0); w.stateOf(0) != kruise.StatePreparingUpdate || p.Labels["hold"] != "yes" || !slices.Equal(p.Finalizers, []string{"hold/it"}) {
		t.Errorf("it is %s with labels %v and finalizers %v", w.stateOf(0), p.Labels, p.Finalizers)
	}
	w.settleWithHooks()
	if w.stateOf(0) != kruise.StateNormal || w.runs(0) != "web:3 restarts=2" {
		t.Errorf("it is %s and runs %s", w.stateOf(0), w.runs(0))
	}
}

// TestNoHop checks that without an inPlaceUpdate hook a pod goes from Updating to Normal, whichever other
// hooks exist.
func TestNoHop(t *testing.T) {
	w := newRunningWorld(t, 1, inPlace, lifecycle(kruise.Lifecycle{PreDelete: &kruise.LifecycleHook{FinalizersHandler: []string{"x/y"}}}))
	w.edit(image("web:2"))
	w.expect("create revision")
	w.expect("UpdatingPodInPlace 0 then SuccessfulUpdatePodInPlace 0")
	w.runKubelet()
	w.expect("Normal 0")
	w.settle()
	w.expect("")
}

// TestNotReadyKeys checks that a pod that its hook makes not ready becomes ready on every transition out of
// the hook's states, and that entries of other user agents stay.
func TestNotReadyKeys(t *testing.T) {
	const others = `[{"userAgent":"other","key":"theirs"}]`
	marks := func(name string) *kruise.LifecycleHook {
		return &kruise.LifecycleHook{LabelsHandler: map[string]string{name: "yes"}, MarkPodNotReady: true}
	}
	w := newRunningWorld(t, 1, inPlace, lifecycle(kruise.Lifecycle{InPlaceUpdate: marks("update"), PreDelete: marks("delete")}), withLabel("update", "yes"), withLabel("delete", "yes"))
	w.change(0, func(p *corev1.Pod) {
		for i := range p.Status.Conditions {
			if c := &p.Status.Conditions[i]; c.Type == kruise.ConditionPodReady {
				c.Status, c.Message = corev1.ConditionFalse, others
			}
		}
	})
	message := func() string { return conditionOf(w.pod(0), kruise.ConditionPodReady).Message }
	w.settle()
	if message() != others {
		t.Errorf("message %q", message())
	}
	w.edit(image("web:2"))
	w.settle()
	if want := `[{"userAgent":"other","key":"theirs"},{"userAgent":"Lifecycle","key":"preUpdateHook"}]`; message() != want {
		t.Errorf("message %q", message())
	}
	w.specify(0)
	w.settle()
	if want := `[{"userAgent":"other","key":"theirs"},{"userAgent":"Lifecycle","key":"preDeleteHook"}]`; message() != want {
		t.Errorf("message %q", message())
	}
	w.change(0, func(p *corev1.Pod) { delete(p.Labels, kruise.LabelSpecifiedDelete) })
	w.settle()
	if c := conditionOf(w.pod(0), kruise.ConditionPodReady); c.Message == "" || c.Status != corev1.ConditionFalse {
		t.Errorf("condition %+v", c)
	}
}

// TestHooksThatAreTakenAway checks that pods continue when the hook that they wait for is removed from the
// set.
func TestHooksThatAreTakenAway(t *testing.T) {
	hook := &kruise.LifecycleHook{LabelsHandler: map[string]string{"hold": "yes"}, MarkPodNotReady: true}
	for name, l := range map[string]kruise.Lifecycle{"preNormal": {PreNormal: &kruise.LifecycleHook{LabelsHandler: map[string]string{"never": "yes"}}}, "inPlaceUpdate": {InPlaceUpdate: hook}, "preDelete": {PreDelete: hook}} {
		t.Run(name, func(t *testing.T) {
			w := newRunningWorld(t, 1, inPlace, lifecycle(l), withLabel("hold", "yes"))
			if name == "preDelete" {
				w.specify(0)
			}
			w.edit(image("web:2"))
			w.settle()
			w.edit(func(s *v1alpha1.CloneSetSpec) { s.Lifecycle = nil })
			w.settle()
			pods := w.active()
			if len(pods) != 1 || pods[0].state != kruise.StateNormal || !pods[0].ready() || w.updatedPods() != 1 {
				t.Errorf("pods %s, %d updated", w.states(), w.updatedPods())
			}
		})
	}
}

// TestHookPending checks that the status names a pod that has waited for a long time, and what it waits for.
func TestHookPending(t *testing.T) {
	w := newRunningWorld(t, 1, lifecycle(kruise.Lifecycle{PreNormal: &kruise.LifecycleHook{FinalizersHandler: []string{"in/it"}}}))
	if d := w.plan(); d.Wake != w.limits.HookTimeout {
		t.Errorf("wake %s", d.Wake)
	}
	w.pass(w.limits.HookTimeout)
	c := condition(&w.set.Status, HookPending)
	if c == nil || !strings.Contains(c.Message, w.name(0)+" has been PreparingNormal since") || !strings.Contains(c.Message, "waits for finalizer in/it to be added") || !slices.Contains(w.events, "HookPending") {
		t.Fatalf("condition %+v, events %v", c, w.events)
	}
	if d := w.plan(); d.Wake != 0 || d.Status != nil {
		t.Errorf("wake %s, status %v", d.Wake, d.Status)
	}
	w.change(0, func(p *corev1.Pod) { p.Finalizers = []string{"in/it"} })
	w.settle()
	if c := condition(&w.set.Status, HookPending); c != nil {
		t.Errorf("condition %+v", c)
	}
}

// TestStatesOfBefore checks that a pod without the state label, such as one of an old Kruise, is Normal, and
// is updated and deleted as other pods are.
func TestStatesOfBefore(t *testing.T) {
	w := newRunningWorld(t, 2, inPlace)
	for slot := range 2 {
		w.change(slot, func(p *corev1.Pod) { delete(p.Labels, kruise.LabelState) })
	}
	w.settle()
	if w.set.Status.AvailableReplicas != 2 {
		t.Errorf("status %+v", w.set.Status)
	}
	w.edit(image("web:2"))
	w.settle()
	if w.updatedPods() != 2 {
		t.Errorf("%d are updated", w.updatedPods())
	}
}
