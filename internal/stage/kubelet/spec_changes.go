package kubelet

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/rehearse-k8s/rehearse/api/kruise"
)

// How running containers follow a change of the spec: another image, other resources, another environment. A
// container that must restart terminates at once and waits; the stages decide how long.

// ignoresSpecChanges holds the steps that replace or terminate all containers, so that a change of the spec
// under running ones no longer matters.
var ignoresSpecChanges = map[string]bool{
	"run": true, "succeed": true,
	"deadline": true, "evict": true, "end": true, "container-failed": true, "init-failed": true,
}

// takeIn aligns the containers with the spec. Every step does so first, because it also reports that it has
// observed this generation of the spec.
func (k *kubelet) takeIn() {
	update, asked := RestartRequested(k.Pod)
	if k.Generation == k.Status.ObservedGeneration && !asked {
		return
	}
	look := func(containers []corev1.Container, statuses []corev1.ContainerStatus) {
		for i := range containers {
			c, s := &containers[i], statusOf(statuses, containers[i].Name)
			switch {
			case s == nil || s.State.Terminated != nil:
				continue
			case s.State.Running != nil:
				if s.Image != c.Image || update.RestartsContainer(s) || ResizeRestarts(c, s) {
					k.down(s)
				}
			case s.ContainerID == "": // it has never run
				s.Image = c.Image
			case s.State.Waiting != nil && s.State.Waiting.Reason == reasonCrashLoop && s.Image != c.Image:
				// The back-off was for the other image.
				s.State.Waiting = &corev1.ContainerStateWaiting{Reason: reasonCreating}
			}
			s.Resources, s.AllocatedResources = resourcesOf(c)
		}
	}
	look(k.Spec.InitContainers, k.Status.InitContainerStatuses)
	look(k.Spec.Containers, k.Status.ContainerStatuses)
}

// down terminates a container that restarts. Its image and IDs stay until it does: they show others that it has
// not restarted yet.
func (k *kubelet) down(s *corev1.ContainerStatus) {
	k.ended(s, 0, reasonCompleted)
	s.LastTerminationState, s.State = s.State, corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: reasonCreating},
	}
}

// observe takes in what has changed, which takeIn has done.
func (k *kubelet) observe() error {
	switch k.Status.Phase {
	case corev1.PodPending, corev1.PodRunning:
		k.refresh()
	}
	return nil
}

// renew starts the containers of a running pod that wait and do not back off.
func (k *kubelet) renew() error {
	k.Status.ContainerStatuses = statusesOf(k.Spec.Containers, k.Status.ContainerStatuses, reasonCreating)
	start := func(containers []corev1.Container, statuses []corev1.ContainerStatus) {
		for i := range containers {
			c, s := &containers[i], statusOf(statuses, containers[i].Name)
			if s != nil && s.State.Waiting != nil && s.State.Waiting.Reason != reasonCrashLoop {
				k.begin(c, s)
				s.Ready = true
			}
		}
	}
	start(k.Spec.InitContainers, k.Status.InitContainerStatuses)
	start(k.Spec.Containers, k.Status.ContainerStatuses)
	k.refresh()
	return nil
}

// resourcesOf is what a kubelet says of a container's resources when it has given
// it what the spec asks for: nothing is ever too much for a simulated node. The
// lists are the spec's own.
func resourcesOf(c *corev1.Container) (*corev1.ResourceRequirements, corev1.ResourceList) {
	if len(c.Resources.Limits)+len(c.Resources.Requests)+len(c.Resources.Claims) == 0 {
		return nil, nil
	}
	return &c.Resources, c.Resources.Requests
}

// ResizeRestarts reports whether a container has to restart because a resource has changed whose resize policy
// says so. A container with unknown resources does not.
func ResizeRestarts(c *corev1.Container, s *corev1.ContainerStatus) bool {
	if s.Resources == nil {
		return false
	}
	for _, p := range c.ResizePolicy {
		if p.RestartPolicy != corev1.RestartContainer {
			continue
		}
		for _, lists := range [...][2]corev1.ResourceList{
			{c.Resources.Limits, s.Resources.Limits}, {c.Resources.Requests, s.Resources.Requests},
		} {
			is, was := lists[0][p.ResourceName], lists[1][p.ResourceName]
			if is.Cmp(was) != 0 {
				return true
			}
		}
	}
	return false
}

// EnvironmentUpdate is what the annotation of an update in place says of containers whose environment comes from
// changed metadata. They restart once; on a real node OpenKruise's daemon does that.
type EnvironmentUpdate map[string]any

// SpecChanged reports whether the spec has changed since the status was written, or an update in place asks
// for containers that start again.
func SpecChanged(p *corev1.Pod) bool {
	if p.Generation != p.Status.ObservedGeneration {
		return true
	}
	_, asked := RestartRequested(p)
	return asked
}

// RestartRequested reads the update of a pod and reports whether any container is
// still the one that the update has found.
func RestartRequested(p *corev1.Pod) (EnvironmentUpdate, bool) {
	text := p.Annotations[kruise.AnnotationInPlaceState]
	if !strings.Contains(text, "updateEnvFromMetadata") {
		return nil, false
	}
	lists := [...][]corev1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses}
	known := strings.ContainsRune(text, '\\') // what is escaped cannot be searched for
	for _, list := range lists {
		for i := range list {
			known = known || list[i].ContainerID != "" && strings.Contains(text, list[i].ContainerID)
		}
	}
	if !known {
		return nil, false // the usual case, once it is over: no need to read it
	}
	var state map[string]any
	if kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &state) != nil || state["updateEnvFromMetadata"] != true {
		return nil, false
	}
	statuses, _ := state["lastContainerStatuses"].(map[string]any)
	update := EnvironmentUpdate(statuses)
	for _, list := range lists {
		for i := range list {
			if update.RestartsContainer(&list[i]) {
				return update, true
			}
		}
	}
	return nil, false
}

func (u EnvironmentUpdate) RestartsContainer(s *corev1.ContainerStatus) bool {
	if s.State.Running == nil || s.ContainerID == "" {
		return false
	}
	before, _ := u[s.Name].(map[string]any)
	return before["containerID"] == s.ContainerID
}
