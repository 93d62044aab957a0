package e2e

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1beta1"
)

// Changes of a CloneSet that cases make.

type change = func(*v1beta1.CloneSet)

func deadline(seconds int32) change {
	return func(c *v1beta1.CloneSet) { c.Spec.ProgressDeadlineSeconds = &seconds }
}
func replicas(n int32) change {
	return func(c *v1beta1.CloneSet) { c.Spec.Replicas = &n }
}
func image(i string) change {
	return func(c *v1beta1.CloneSet) { c.Spec.Template.Spec.Containers[0].Image = i }
}
func rolling(c *v1beta1.CloneSet) *v1beta1.RollingUpdateCloneSetStrategy {
	if c.Spec.UpdateStrategy.RollingUpdate == nil {
		c.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateCloneSetStrategy{}
	}
	return c.Spec.UpdateStrategy.RollingUpdate
}
func policy(p v1beta1.CloneSetPodUpdatePolicyType) change {
	return func(c *v1beta1.CloneSet) { rolling(c).PodUpdatePolicy = p }
}
func maxUnavailable(v intstr.IntOrString) change {
	return func(c *v1beta1.CloneSet) { rolling(c).MaxUnavailable = &v }
}
func partition(v intstr.IntOrString) change {
	return func(c *v1beta1.CloneSet) { rolling(c).Partition = &v }
}
func label(key, value string) change {
	return func(c *v1beta1.CloneSet) { c.Spec.Template.Labels[key] = value }
}
func annotation(key, value string) change {
	return func(c *v1beta1.CloneSet) { c.Spec.Template.Annotations[key] = value }
}
func without(key string) change {
	return func(c *v1beta1.CloneSet) { delete(c.Spec.Template.Annotations, key) }
}
func hooks(l kruise.Lifecycle) change {
	return func(c *v1beta1.CloneSet) { c.Spec.Lifecycle = &l }
}

// Checks of a view.

func all(checks ...func(view) error) func(view) error {
	return func(v view) error {
		for _, f := range checks {
			if err := f(v); err != nil {
				return err
			}
		}
		return nil
	}
}

// numbers checks the numbers of the status.
func numbers(replicas, ready, updated, updatedReady int32) func(view) error {
	return func(v view) error {
		s := &v.set.Status
		if s.Replicas != replicas || s.ReadyReplicas != ready || s.UpdatedReplicas != updated || s.UpdatedReadyReplicas != updatedReady {
			return fmt.Errorf("%d replicas, %d ready, %d updated, %d updated and ready; not %d, %d, %d, %d",
				s.Replicas, s.ReadyReplicas, s.UpdatedReplicas, s.UpdatedReadyReplicas, replicas, ready, updated, updatedReady)
		}
		return nil
	}
}

// allReady checks that n pods exist and all are updated and ready.
func allReady(n int32) func(view) error { return numbers(n, n, n, n) }

// reason checks the reason of the condition Progressing; "" means that there is no condition.
func reason(want string) func(view) error {
	return func(v view) error {
		got := ""
		for _, c := range v.set.Status.Conditions {
			if c.Type != v1alpha1.Progressing {
				continue
			}
			got = c.Reason
			if is := c.Status == corev1.ConditionTrue; is == (c.Reason == v1alpha1.ReasonDeadlineExceeded) {
				return fmt.Errorf("condition %+v", c)
			}
		}
		if got != want {
			return fmt.Errorf("the condition Progressing has reason %q, want %q", got, want)
		}
		return nil
	}
}

// states checks that n pods are in a state.
func states(want kruise.LifecycleState, n int) func(view) error {
	return func(v view) error {
		got := 0
		for i := range v.pods {
			if state(&v.pods[i]) == want {
				got++
			}
		}
		if got != n {
			return fmt.Errorf("%d pods are %s, not %d", got, want, n)
		}
		return nil
	}
}

// none checks that no pod is terminating.
func none(v view) error {
	if len(v.going) > 0 {
		return fmt.Errorf("pod %s is being deleted", v.going[0].Name)
	}
	return nil
}

func state(p *corev1.Pod) kruise.LifecycleState {
	return kruise.LifecycleState(p.Labels[kruise.LabelState])
}

func ready(p *corev1.Pod) bool { return readyCondition(p).Status == corev1.ConditionTrue }

func readyCondition(p *corev1.Pod) (c corev1.PodCondition) {
	if i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady }); i >= 0 {
		c = p.Status.Conditions[i]
	}
	return c
}

// uids returns the UIDs of pods, in their order.
func uids(pods []corev1.Pod) (all []types.UID) {
	for i := range pods {
		all = append(all, pods[i].UID)
	}
	return all
}

// kept checks how many of some earlier pods still exist.
func kept(before []corev1.Pod, n int) func(view) error {
	return func(v view) error {
		got := 0
		for _, uid := range uids(v.pods) {
			if slices.Contains(uids(before), uid) {
				got++
			}
		}
		if got != n {
			return fmt.Errorf("%d of the earlier pods exist, want %d", got, n)
		}
		return nil
	}
}

// container returns the status of a pod's container.
func container(p *corev1.Pod, name string) corev1.ContainerStatus {
	for _, s := range p.Status.ContainerStatuses {
		if s.Name == name {
			return s
		}
	}
	return corev1.ContainerStatus{}
}

// of returns the pods of a revision.
func of(v view, revision string) (pods []corev1.Pod) {
	for _, p := range v.pods {
		if p.Labels[kruise.LabelRevision] == revision {
			pods = append(pods, p)
		}
	}
	return pods
}

var (
	percent = intstr.FromString
	number  = intstr.FromInt32
)
