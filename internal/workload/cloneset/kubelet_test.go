package cloneset

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/api/kruise"
)

// behaviour is how a pod lives.
type behaviour struct {
	// unbound: no scheduler has a node for it. stays: it does not go when it is deleted.
	unbound, stays bool
	// unready are containers that run and are not ready, stuck those that do not begin anew.
	unready, stuck []string
}

func (w *world) behaviour(p *corev1.Pod) behaviour {
	if w.behaves == nil {
		return behaviour{}
	}
	return w.behaves(p)
}

// kubelet does what is due for a pod, and tells whether anything was: it is bound, its
// containers run, it is Ready when they and its gates are, it goes when it is deleted.
func (w *world) kubelet(name string) bool {
	is := w.pods[name]
	b := w.behaviour(is)
	if is.DeletionTimestamp != nil {
		if b.stays || len(is.Finalizers) > 0 {
			return false
		}
		w.vanish(name)
		return true
	}
	if is.Status.Phase == corev1.PodFailed || is.Status.Phase == corev1.PodSucceeded || is.Spec.NodeName == "" && b.unbound {
		return false
	}
	p := is.DeepCopy()
	if p.Spec.NodeName == "" {
		p.Spec.NodeName = "node"
		w.put(p)
		return true
	}
	p.Status.Phase = corev1.PodRunning
	var all []corev1.ContainerStatus
	for i := range p.Spec.Containers {
		all = append(all, w.container(p, i, b))
	}
	p.Status.ContainerStatuses = all
	ready := !slices.ContainsFunc(all, func(s corev1.ContainerStatus) bool { return !s.Ready })
	for _, gate := range p.Spec.ReadinessGates {
		ready = ready && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == gate.ConditionType && c.Status == corev1.ConditionTrue
		})
	}
	w.condition(p, corev1.PodReady, ready)
	if equality.Semantic.DeepEqual(is, p) {
		return false
	}
	w.put(p)
	return true
}

// container is what one does now: it begins anew when its image is another, or when its
// environment is and that was asked for.
func (w *world) container(p *corev1.Pod, i int, b behaviour) corev1.ContainerStatus {
	c := &p.Spec.Containers[i]
	s := corev1.ContainerStatus{Name: c.Name, RestartCount: -1}
	if j := slices.IndexFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == c.Name }); j >= 0 {
		s = p.Status.ContainerStatuses[j]
	}
	u := unit{Pod: View(p)}
	asked := func() bool {
		state := u.inPlaceState()
		return state != nil && state.UpdateEnvFromMetadata && state.LastContainerStatuses[c.Name].ContainerID == s.ContainerID
	}
	if s.RestartCount < 0 || !slices.Contains(b.stuck, c.Name) && (s.Image != c.Image || asked()) {
		s.RestartCount++
		s.Image, s.ImageID = c.Image, "id of "+c.Image
		s.ContainerID = fmt.Sprintf("%s/%s/%d/%s", p.UID, c.Name, s.RestartCount, p.Labels["v"]) // and what its environment says
	}
	s.Ready = !slices.Contains(b.unready, c.Name)
	if len(c.Resources.Requests)+len(c.Resources.Limits) > 0 {
		s.Resources = c.Resources.DeepCopy()
	}
	return s
}

func (w *world) condition(p *corev1.Pod, kind corev1.PodConditionType, is bool) {
	c := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(w.now)}
	if is {
		c.Status = corev1.ConditionTrue
	}
	for i := range p.Status.Conditions {
		if old := &p.Status.Conditions[i]; old.Type == kind {
			if old.Status != c.Status {
				*old = c
			}
			return
		}
	}
	p.Status.Conditions = append(p.Status.Conditions, c)
}

// vanish is the end of a pod; claims that waited for it go too.
func (w *world) vanish(name string) {
	id := w.pods[name].Labels[kruise.LabelInstanceID]
	delete(w.pods, name)
	for _, c := range w.claims {
		if c.DeletionTimestamp != nil && c.Labels[kruise.LabelInstanceID] == id {
			delete(w.claims, c.Name)
		}
	}
}

// tidy lets claims go that are deleted and that no pod has, and tells whether any were.
func (w *world) tidy() (any bool) {
	for _, c := range w.claims {
		used := false
		for _, p := range w.pods {
			used = used || p.Labels[kruise.LabelInstanceID] == c.Labels[kruise.LabelInstanceID]
		}
		if c.DeletionTimestamp != nil && !used {
			delete(w.claims, c.Name)
			any = true
		}
	}
	return any
}

// obey does what hooks wait for: it takes away what holds a pod, and gives what is
// missing. It tells whether there was anything.
func (w *world) obey(name string) bool {
	is := w.pods[name]
	hooks := w.set.Spec.Lifecycle
	if hooks == nil {
		return false
	}
	p := is.DeepCopy()
	take := func(h *kruise.LifecycleHook) {
		if h == nil {
			return
		}
		for key := range h.LabelsHandler {
			delete(p.Labels, key)
		}
		p.Finalizers = slices.DeleteFunc(p.Finalizers, func(f string) bool { return slices.Contains(h.FinalizersHandler, f) })
	}
	give := func(h *kruise.LifecycleHook) {
		if h == nil {
			return
		}
		for key, value := range h.LabelsHandler {
			p.Labels[key] = value
		}
		for _, f := range h.FinalizersHandler {
			if !slices.Contains(p.Finalizers, f) {
				p.Finalizers = append(p.Finalizers, f)
			}
		}
	}
	switch state := kruise.LifecycleState(p.Labels[kruise.LabelState]); {
	case p.DeletionTimestamp != nil:
		// Who was deleted by others has its finalizers taken away too.
		for _, h := range []*kruise.LifecycleHook{hooks.PreDelete, hooks.InPlaceUpdate, hooks.PreNormal} {
			take(h)
		}
	case state == kruise.StatePreparingNormal:
		give(hooks.PreNormal)
	case state == kruise.StatePreparingUpdate:
		take(hooks.InPlaceUpdate)
	case state == kruise.StateUpdated:
		give(hooks.InPlaceUpdate)
	case state == kruise.StatePreparingDelete:
		take(hooks.PreDelete)
	}
	if equality.Semantic.DeepEqual(is, p) {
		return false
	}
	w.put(p)
	return true
}

// runKubelet does everything that is due for kubelets, and reports whether anything was.
func (w *world) runKubelet() (any bool) {
	for again := true; again; {
		again = w.tidy()
		for _, name := range sorted(w.pods) {
			again = w.kubelet(name) || again
		}
		any = any || again
	}
	return any
}

// rounds is within how many plans a world comes to rest, or never does.
const rounds = 300

// settle goes on until there is nothing more to do without time going by, or anybody
// obeying a hook.
func (w *world) settle() {
	w.t.Helper()
	for range rounds {
		lived := w.runKubelet()
		d := w.plan()
		if !lived && len(d.Actions) == 0 && d.Status == nil {
			return
		}
		w.carryOut(d)
	}
	d := w.plan()
	w.t.Fatalf("the world does not come to rest: %s; status %s; because %v", w.acts(d), asJSON(d.Status), d.Reasons)
}

// obedient settles, with all hooks obeyed.
func (w *world) obedient() {
	w.t.Helper()
	for range rounds {
		w.settle()
		any := false
		for _, name := range sorted(w.pods) {
			any = w.obey(name) || any
		}
		if !any {
			return
		}
	}
	w.t.Fatalf("hooks are never content")
}

// pass lets time go by, and settles.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	w.now = w.now.Add(d)
	w.settle()
}

// fail ends a pod.
func (w *world) fail(slot int) {
	w.change(slot, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodFailed
		w.condition(p, corev1.PodReady, false)
	})
}

// remove is what a user does who deletes a pod; it is gone when live is called.
func (w *world) remove(slot int) {
	w.change(slot, func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(w.now)) })
}
