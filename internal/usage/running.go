package usage

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Container is a running container.
type Container struct {
	Name string
	// Started is when the container started last.
	Started time.Time
}

// Running returns the running containers of a pod: init containers, then containers, each in the order of the spec. Stages may set the phase
// Running without statuses of containers; then all containers run since the start of the pod.
func Running(pod *corev1.Pod) []Container {
	if pod.Status.Phase != corev1.PodRunning {
		return nil
	}
	out := make([]Container, 0, len(pod.Spec.Containers))
	podStart := pod.CreationTimestamp.Time
	if pod.Status.StartTime != nil {
		podStart = pod.Status.StartTime.Time
	}
	add := func(list []corev1.Container, statuses []corev1.ContainerStatus, withoutStatus bool) {
		for i := range list {
			started := podStart
			if at := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == list[i].Name }); at >= 0 {
				running := statuses[at].State.Running
				if running == nil {
					continue
				}
				if !running.StartedAt.IsZero() {
					started = running.StartedAt.Time
				}
			} else if !withoutStatus {
				continue
			}
			out = append(out, Container{list[i].Name, started})
		}
	}
	add(pod.Spec.InitContainers, pod.Status.InitContainerStatuses, false)
	add(pod.Spec.Containers, pod.Status.ContainerStatuses, true)
	return out
}
