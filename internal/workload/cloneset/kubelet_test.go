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

// behaviour is how the scheduler and the kubelet treat a pod.
type behaviour struct {
	// unbound: no scheduler binds the pod. stays: it stays terminating.
	unbound, stays bool
	// unready are containers that run and are not ready, stuck those that do not restart.
	unready, stuck []string
}

func (w *world) behaviour(p *corev1.Pod) behaviour {
	if w.behaves == nil {
		return behaviour{}
	}
	return w.behaves(p)
}

// kubelet does the next step of a pod and reports whether there was one: it binds the pod, starts its
// containers, updates its Ready condition, or removes it if it is terminating.
func (w *world) kubelet(name string) bool {
	is := w.pods[name]
	b := w.behaviour(is)
	if is.DeletionTimestamp != nil {
		if b.stays || len(is.Finalizers) > 0 {
			return false
		}
		w.removePod(name)
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

// container returns the next status of a container. It restarts if its image has changed, or if its
// environment has and the update demands it.
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
		s.ContainerID = fmt.Sprintf("%s/%s/%d/%s", p.UID, c.Name, s.RestartCount, p.Labels["v"]) // with the value of its environment variable
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

// removePod removes a pod, and terminating claims that were protected by it.
func (w *world) removePod(name string) {
	id := w.pods[name].Labels[kruise.LabelInstanceID]
	delete(w.pods, name)
	for _, c := range w.claims {
		if c.DeletionTimestamp != nil && c.Labels[kruise.LabelInstanceID] == id {
			delete(w.claims, c.Name)
		}
	}
}

// removeUnusedClaims removes terminating claims that no pod uses, and reports whether there were any.
func (w *world) removeUnusedClaims() (any bool) {
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

// completeHooks does what a pod's hook waits for: it removes the handlers that block the pod, or adds the missing ones.
// It reports whether there were any.
func (w *world) completeHooks(name string) bool {
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
		// If another client has deleted the pod, its finalizers are removed too.
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

// runKubelet takes all steps of kubelets, and reports whether there were any.
func (w *world) runKubelet() (any bool) {
	for again := true; again; {
		again = w.removeUnusedClaims()
		for _, name := range sorted(w.pods) {
			again = w.kubelet(name) || again
		}
		any = any || again
	}
	return any
}

// rounds is how many plans a world may take to converge.
const rounds = 300

// settle continues until there is nothing to do at this time and without completing hooks.
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
	w.t.Fatalf("the world does not converge: %s; status %s; reasons %v", w.acts(d), asJSON(d.Status), d.Reasons)
}

// settleWithHooks settles and completes all hooks.
func (w *world) settleWithHooks() {
	w.t.Helper()
	for range rounds {
		w.settle()
		any := false
		for _, name := range sorted(w.pods) {
			any = w.completeHooks(name) || any
		}
		if !any {
			return
		}
	}
	w.t.Fatalf("hooks are not complete after all rounds")
}

// pass advances the time, and settles.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	w.now = w.now.Add(d)
	w.settle()
}

// fail makes a pod Failed.
func (w *world) fail(slot int) {
	w.change(slot, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodFailed
		w.condition(p, corev1.PodReady, false)
	})
}

// remove is a user's deletion of a pod; kubelet removes it later.
func (w *world) remove(slot int) {
	w.change(slot, func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(w.now)) })
}
