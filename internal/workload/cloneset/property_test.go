package cloneset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// TestConverges executes random scenarios: users change the set and its pods, some actions of a plan are lost
// and the others are carried out in any order, and kubelets and hooks act late. Meanwhile there are never more
// pods than replicas and maxSurge allow, and no plan makes available pods unavailable that are needed. Then
// all actors do their work, and the set converges to its spec, where a plan does nothing.
func TestConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for range rapid.IntRange(5, 60).Draw(t, "steps") {
			drawStep(t, w)
		}
		w.converge()
		w.checkConverged()
	})
}

func oneOf[T any](t *rapid.T, what string, from ...T) T {
	return rapid.SampledFrom(from).Draw(t, what)
}

func drawWorld(t *rapid.T) *world {
	w := newWorld(t, rapid.IntRange(1, 5).Draw(t, "replicas"))
	s := &w.set.Spec
	u := &s.UpdateStrategy
	u.Type = oneOf(t, "type", v1alpha1.ReCreate, v1alpha1.InPlaceIfPossible, v1alpha1.InPlaceIfPossible, v1alpha1.InPlaceOnly, v1alpha1.OnDelete)
	u.MaxUnavailable = oneOf(t, "maxUnavailable", nil, ptr.To(number(1)), ptr.To(number(2)), ptr.To(percent("50%")))
	u.MaxSurge = oneOf(t, "maxSurge", nil, nil, ptr.To(number(1)), ptr.To(percent("40%")))
	if u.MaxUnavailable == nil && u.MaxSurge != nil && u.Type != v1alpha1.InPlaceOnly && rapid.Bool().Draw(t, "only surge") {
		u.MaxUnavailable = ptr.To(number(0))
	}
	s.MinReadySeconds = oneOf(t, "minReadySeconds", int32(0), 0, 5)
	s.ScaleStrategy.MaxUnavailable = oneOf(t, "scale maxUnavailable", nil, nil, ptr.To(number(1)))
	s.ProgressDeadlineSeconds = oneOf(t, "deadline", nil, ptr.To(int32(60)))
	if rapid.Bool().Draw(t, "grace") {
		u.InPlaceUpdateStrategy = &kruise.InPlaceUpdateStrategy{GracePeriodSeconds: 3}
	}
	if rapid.Bool().Draw(t, "claims") {
		claim("data")(s)
		s.ScaleStrategy.DisablePVCReuse = rapid.Bool().Draw(t, "no reuse")
	}
	c := &s.Template.Spec.Containers[0]
	c.Env = []corev1.EnvVar{{Name: "V", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['v']"}}}}
	c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	first := corev1.Container{Name: "first", Image: "first:1", Env: []corev1.EnvVar{{Name: priorityVariable, Value: "2"}}}
	c.Env = append(c.Env, corev1.EnvVar{Name: priorityVariable, Value: "1"})
	s.Template.Spec.Containers = append(s.Template.Spec.Containers, first)
	if rapid.Bool().Draw(t, "hooks") {
		hook := func(name string) *kruise.LifecycleHook {
			switch rapid.IntRange(0, 3).Draw(t, name) {
			case 1:
				s.Template.Labels[name] = "yes"
				return &kruise.LifecycleHook{LabelsHandler: map[string]string{name: "yes"}, MarkPodNotReady: true}
			case 2:
				s.Template.Finalizers = append(s.Template.Finalizers, name+"/hook")
				return &kruise.LifecycleHook{FinalizersHandler: []string{name + "/hook"}}
			case 3:
				return &kruise.LifecycleHook{LabelsHandler: map[string]string{name: "yes"}, FinalizersHandler: []string{name + "/hook"}}
			}
			return nil
		}
		s.Lifecycle = &kruise.Lifecycle{PreDelete: hook("pre-delete"), InPlaceUpdate: hook("in-place"), PreNormal: hook("pre-normal")}
	}
	if oneOf(t, "exclude", false, false, true) {
		w.set.Labels = map[string]string{kruise.LabelExcludePreparingDelete: "true"}
	}
	return w
}

// drawStep draws a step of any actor.
func drawStep(t *rapid.T, w *world) {
	any := func(what string) string { // pod
		names := sorted(w.pods)
		if len(names) == 0 {
			return ""
		}
		return rapid.SampledFrom(names).Draw(t, what)
	}
	switch what := rapid.IntRange(0, 19).Draw(t, "step"); what {
	default: // a plan, some of whose actions are lost
		w.carryOutSome(t, w.checkedPlan())
	case 10, 11, 12:
		if name := any("kubelet of"); name != "" {
			w.kubelet(name)
		}
	case 13:
		w.runKubelet()
	case 14:
		if name := any("obeys"); name != "" {
			w.completeHooks(name)
		}
	case 15:
		w.now = w.now.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "seconds")) * time.Second)
	case 16:
		if name := any("troubled"); name != "" {
			disrupt(t, w, name)
		}
	case 17, 18:
		drawTemplate(t, w)
	case 19:
		w.edit(func(s *v1alpha1.CloneSetSpec) {
			switch rapid.IntRange(0, 3).Draw(t, "edit") {
			case 0:
				s.Replicas = ptr.To(int32(rapid.IntRange(0, 6).Draw(t, "to replicas")))
			case 1:
				s.UpdateStrategy.Partition = oneOf(t, "to partition", nil, ptr.To(number(1)), ptr.To(number(2)), ptr.To(percent("50%")))
			case 2:
				s.UpdateStrategy.Paused = !s.UpdateStrategy.Paused
			case 3:
				if name := any("to delete"); name != "" {
					s.ScaleStrategy.PodsToDelete = append(slices.Clone(s.ScaleStrategy.PodsToDelete), name)
				}
			}
		})
	}
}

func drawTemplate(t *rapid.T, w *world) {
	version := rapid.IntRange(1, 3).Draw(t, "version")
	w.edit(func(s *v1alpha1.CloneSetSpec) {
		c := &s.Template.Spec.Containers[0]
		switch rapid.IntRange(0, 5).Draw(t, "what of the template") {
		case 0:
			c.Image = fmt.Sprint("web:", version)
		case 1:
			s.Template.Spec.Containers[1].Image = fmt.Sprint("first:", version)
		case 2:
			s.Template.Labels["v"] = fmt.Sprint(version)
		case 3:
			c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(fmt.Sprint(version))}
		case 4:
			s.Template.Annotations = map[string]string{"note": fmt.Sprint(version)}
		case 5:
			if s.UpdateStrategy.Type != v1alpha1.InPlaceOnly {
				c.Command = []string{fmt.Sprint(version)}
			}
		}
	})
}

// disrupt draws a disruption of a pod.
func disrupt(t *rapid.T, w *world, name string) {
	p := w.pods[name].DeepCopy()
	switch rapid.IntRange(0, 4).Draw(t, "trouble") {
	case 0:
		p.Labels[kruise.LabelSpecifiedDelete] = "true"
	case 1:
		if p.OwnerReferences == nil {
			return
		}
		p.Status.Phase = corev1.PodFailed
		w.condition(p, corev1.PodReady, false)
	case 2:
		if p.DeletionTimestamp == nil {
			w.delete(p)
		}
		return
	case 3:
		if p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodFailed { // no kubelet acts on those
			p.OwnerReferences = nil
		}
	case 4:
		w.condition(p, corev1.PodReady, false)
	}
	w.put(p)
}

// checkedPlan makes a plan and checks that it deletes no available pod that is needed, and creates no surplus
// pod.
func (w *world) checkedPlan() Decision {
	w.t.Helper()
	d := w.plan()
	w.trace = append(w.trace, fmt.Sprintf("%s: %s; %s; wake %s", w.now.Format(time.TimeOnly), w.states(), w.acts(d), d.Wake))
	s := w.state()
	want, err := resolve(s.Set)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	minReady := time.Duration(s.Set.Spec.MinReadySeconds) * time.Second
	available, active, made := map[string]bool{}, 0, 0
	for _, p := range s.Pods {
		if ok, _ := p.available(w.now, minReady); ok && p.active {
			available[p.Name] = true
		}
		if p.active && (!want.excludePreparingDelete || p.state != kruise.StatePreparingDelete) {
			active++
		}
	}
	was := len(available)
	w.checkHooksAndClaims(s, d)
	for i := range d.Actions {
		a := &d.Actions[i]
		switch {
		case a.Verb == workload.Create:
			if last := lastOf(a); last != nil {
				made++
			}
		case a.Verb == workload.Delete, a.Subresource == "status":
			delete(available, a.Object.GetName())
		}
	}
	if need := want.replicas - want.maxUnavailable; len(available) < min(was, need) {
		w.t.Fatalf("%d pods were available, %d are left, %d are needed; %s", was, len(available), need, w.lastPlans())
	}
	if made > 0 && active+made > want.replicas+want.maxSurge {
		w.t.Fatalf("%d pods and %d new ones are more than %d and %d; %s", active, made, want.replicas, want.maxSurge, w.lastPlans())
	}
	return d
}

// checkHooksAndClaims checks that a plan respects hooks and claims: it deletes or changes no pod that a hook blocks,
// makes no pod Normal whose hook is not complete, and deletes no claim whose pod stays.
func (w *world) checkHooksAndClaims(s State, d Decision) {
	w.t.Helper()
	hooks := (&plan{set: s.Set}).hooks()
	pods, instances := map[string]*Pod{}, map[string]*Pod{}
	for _, p := range s.Pods {
		pods[p.Name], instances[p.instance] = p, p
	}
	for i := range d.Actions {
		a := &d.Actions[i]
		if c, ok := a.Object.(*corev1.PersistentVolumeClaim); ok && a.Verb == workload.Delete {
			if p := instances[w.claims[c.Name].Labels[kruise.LabelInstanceID]]; p != nil && !p.Terminating {
				w.t.Fatalf("claim %s is deleted before its pod; %s", c.Name, w.lastPlans())
			}
		}
		p := pods[a.Object.GetName()]
		if _, ok := a.Object.(*corev1.Pod); !ok || p == nil {
			continue
		}
		switch {
		case a.Verb == workload.Delete && p.active && blocks(hooks.PreDelete, p):
			w.t.Fatalf("pod %s is deleted although its hook blocks it; %s", w.nameOf(p.Name), w.lastPlans())
		case (a.Reason.Code == "UpdatingPodInPlace" || a.Reason.Code == "SuccessfulUpdatePodInPlace") && p.state != kruise.StateUpdating && blocks(hooks.InPlaceUpdate, p):
			w.t.Fatalf("pod %s is updated although its hook blocks it; %s", w.nameOf(p.Name), w.lastPlans())
		case a.Reason.Code == string(kruise.StateNormal) && p.state == kruise.StatePreparingNormal && !complete(hooks.PreNormal, p):
			w.t.Fatalf("pod %s becomes Normal although its hook is not complete; %s", w.nameOf(p.Name), w.lastPlans())
		}
	}
}

// carryOutSome carries out some actions of a decision, in any order.
func (w *world) carryOutSome(t *rapid.T, d Decision) {
	if oneOf(t, "conflict", true, false, false, false) {
		return
	}
	w.past = d.Past
	w.writeStatus(d)
	for _, i := range rapid.Permutation(numbers(len(d.Actions))).Draw(t, "order") {
		switch a := d.Actions[i]; oneOf(t, "fate", "done", "done", "lost", "half") {
		case "done":
			_ = w.apply(&a)
		case "half": // the following actions are lost
			a.Then = nil
			_ = w.apply(&a)
		}
	}
}

func numbers(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// converge lets all actors do their work and advances the time, until nothing happens.
func (w *world) converge() {
	w.t.Helper()
	for range rounds {
		any := w.runKubelet()
		for _, name := range sorted(w.pods) {
			any = w.completeHooks(name) || any
		}
		d := w.checkedPlan()
		if !any && len(d.Actions) == 0 && d.Status == nil {
			// The event of another object may cause a plan at any time; it must do nothing.
			w.now = w.now.Add(max(d.Wake, time.Minute))
			if d.Wake == 0 && w.isQuiescent() {
				return
			}
			continue
		}
		w.carryOut(d)
	}
	d := w.plan()
	w.t.Fatalf("the world does not converge: %s; status %s; reasons %v; %s", w.acts(d), asJSON(d.Status), d.Reasons, w.lastPlans())
}

// lastPlans returns the last plans.
func (w *world) lastPlans() string {
	return "the last plans were\n" + strings.Join(w.trace[max(0, len(w.trace)-15):], "\n")
}

// states returns the states of pods.
func (w *world) states() string {
	var all []string
	for _, p := range w.state().Pods {
		text := fmt.Sprintf("%s %s", w.nameOf(p.Name), p.state)
		for _, word := range []struct {
			said  string
			holds bool
		}{
			{"updated", p.revision == w.set.Status.UpdateRevision}, {"ready", p.ready()}, {"marked", p.marked}, {"deleted", p.Terminating},
			{"failed", p.Phase == corev1.PodFailed}, {"unbound", p.Node == ""}, {"to be changed", p.InPlaceGrace != ""},
		} {
			if word.holds {
				text += " " + word.said
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// isQuiescent reports whether a plan has neither actions nor a status nor a wake.
func (w *world) isQuiescent() bool {
	w.t.Helper()
	d := w.checkedPlan()
	return len(d.Actions) == 0 && d.Status == nil && d.Wake == 0
}

// checkConverged checks the state to which a set must converge.
func (w *world) checkConverged() {
	w.t.Helper()
	s := w.state()
	want, _ := resolve(s.Set)
	updated := 0
	for _, p := range s.Pods {
		switch {
		case !p.active:
			w.t.Errorf("pod %s exists and does not count", p.Name)
		case !p.normal() || !p.ready():
			w.t.Errorf("pod %s is %s, ready %t: %s", p.Name, p.state, p.ready(), asJSON(p))
		case p.InPlaceGrace != "":
			w.t.Errorf("pod %s has an unfinished update", p.Name)
		case p.marked:
			w.t.Errorf("pod %s is specified for deletion", p.Name)
		}
		if p.revision == s.Set.Status.UpdateRevision {
			updated++
			w.checkTemplate(p)
		}
	}
	if len(s.Pods) != want.replicas {
		w.t.Errorf("%d pods, not %d", len(s.Pods), want.replicas)
	}
	if s.Set.Spec.UpdateStrategy.Type != v1alpha1.OnDelete && s.Set.Spec.UpdateStrategy.Type != v1alpha1.InPlaceOnly && !s.Set.Spec.UpdateStrategy.Paused && updated < want.replicas-want.partition {
		w.t.Errorf("%d pods are updated, want %d", updated, want.replicas-want.partition)
	}
	if len(w.claims) > 0 && s.Set.Spec.ScaleStrategy.DisablePVCReuse && len(w.claims) != len(s.Pods) {
		w.t.Errorf("%d claims of %d pods", len(w.claims), len(s.Pods))
	}
	if got := int(s.Set.Status.AvailableReplicas); got != want.replicas {
		w.t.Errorf("the status counts %d available pods", got)
	}
	if s.Set.Status.ObservedGeneration != s.Set.Generation {
		w.t.Errorf("the status is of generation %d, not %d", s.Set.Status.ObservedGeneration, s.Set.Generation)
	}
}

// container returns the status of a container.
func container(p *corev1.Pod, name string) (s corev1.ContainerStatus) {
	for i := range p.Status.ContainerStatuses {
		if p.Status.ContainerStatuses[i].Name == name {
			s = p.Status.ContainerStatuses[i]
		}
	}
	return s
}

// checkTemplate compares an updated pod with the template.
func (w *world) checkTemplate(p *Pod) {
	w.t.Helper()
	o, t := w.pods[p.Name], &w.set.Spec.Template
	for i := range t.Spec.Containers {
		is, want := &o.Spec.Containers[i], &t.Spec.Containers[i]
		if is.Image != want.Image || is.Resources.Requests.Cpu().Cmp(*want.Resources.Requests.Cpu()) != 0 {
			w.t.Errorf("pod %s has the update revision and %s with %v, not %s with %v", p.Name, is.Image, is.Resources, want.Image, want.Resources)
		}
	}
	if is := container(o, t.Spec.Containers[0].Name); is.ContainerID[strings.LastIndexByte(is.ContainerID, '/')+1:] != t.Labels["v"] || is.Image != t.Spec.Containers[0].Image {
		w.t.Errorf("pod %s has the update revision with v=%s and runs %s from %s", p.Name, t.Labels["v"], is.ContainerID, is.Image)
	}
	if o.Labels["v"] != t.Labels["v"] || o.Annotations["note"] != t.Annotations["note"] {
		w.t.Errorf("pod %s has the update revision and labels %v and annotations %v", p.Name, o.Labels, o.Annotations)
	}
}
