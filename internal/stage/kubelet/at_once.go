package kubelet

import (
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Reasons as the kubelet writes them (pkg/kubelet/status/generate.go and
// pkg/kubelet/kubelet_pods.go).
const (
	reasonGatesNotReady = "ReadinessGatesNotReady"
	reasonPodCompleted  = "PodCompleted"
	reasonPodFailed     = "PodFailed"
	reasonCompleted     = "Completed"
	reasonError         = "Error"
	reasonUnknownStatus = "ContainerStatusUnknown"
)

// exitKilled is the exit code of a container killed by a signal (128 + SIGKILL).
const exitKilled = 137

// SetCondition replaces or appends a condition; the transition time moves only
// with the status. conditions must not be shared.
func SetCondition(conditions []corev1.PodCondition, c corev1.PodCondition, now metav1.Time) []corev1.PodCondition {
	c.LastTransitionTime = now
	for i := range conditions {
		if conditions[i].Type != c.Type {
			continue
		}
		if conditions[i].Status == c.Status && !conditions[i].LastTransitionTime.IsZero() {
			c.LastTransitionTime = conditions[i].LastTransitionTime
		}
		conditions[i] = c
		return conditions
	}
	return append(conditions, c)
}

func ownConditions(p *corev1.Pod) []corev1.PodCondition {
	return append(make([]corev1.PodCondition, 0, len(p.Status.Conditions)+6), p.Status.Conditions...)
}

func condition(p *corev1.Pod, t corev1.PodConditionType, status corev1.ConditionStatus, reason string) corev1.PodCondition {
	return corev1.PodCondition{Type: t, Status: status, Reason: reason, ObservedGeneration: p.Generation}
}

// runAtOnce gives the pod its addresses and runs all its containers, the init containers as if they had succeeded.
func (k *kubelet) runAtOnce() error {
	p, status := k.Pod, &k.Status
	nodeIPs, err := k.at.Addresses.NodeIPs(p.Spec.NodeName)
	if err != nil {
		return err
	}
	podIPs, err := PodIPs(k.at.Addresses, p.Spec.NodeName, p.Spec.HostNetwork, p.UID)
	if err != nil {
		return err
	}
	status.Phase = corev1.PodRunning
	if status.StartTime == nil || status.StartTime.IsZero() {
		status.StartTime = &k.now
	}
	setIPs(status, nodeIPs, podIPs)
	gates := closedGates(p, status.Conditions)
	for _, t := range [...]corev1.PodConditionType{
		corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodScheduled,
	} {
		k.set(t, corev1.ConditionTrue, "", "")
	}
	if gates != "" {
		k.set(corev1.PodReady, corev1.ConditionFalse, reasonGatesNotReady, gates)
	} else {
		k.set(corev1.PodReady, corev1.ConditionTrue, "", "")
	}
	if n := len(p.Spec.InitContainers); n > 0 {
		status.InitContainerStatuses = make([]corev1.ContainerStatus, n)
		for i := range p.Spec.InitContainers {
			status.InitContainerStatuses[i] = readyInit(p, &p.Spec.InitContainers[i], k.now)
		}
	}
	status.ContainerStatuses = make([]corev1.ContainerStatus, len(p.Spec.Containers))
	for i := range p.Spec.Containers {
		status.ContainerStatuses[i] = runningContainer(p, &p.Spec.Containers[i], k.now)
	}
	return nil
}

func setIPs(status *corev1.PodStatus, nodeIPs, podIPs []string) {
	if len(nodeIPs) > 0 {
		status.HostIP = nodeIPs[0]
		status.HostIPs = make([]corev1.HostIP, len(nodeIPs))
		for i, ip := range nodeIPs {
			status.HostIPs[i].IP = ip
		}
	}
	if len(podIPs) > 0 {
		status.PodIP = podIPs[0]
		status.PodIPs = make([]corev1.PodIP, len(podIPs))
		for i, ip := range podIPs {
			status.PodIPs[i].IP = ip
		}
	}
}

func runningContainer(p *corev1.Pod, c *corev1.Container, now metav1.Time) corev1.ContainerStatus {
	resources, allocated := resourcesOf(c)
	return corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, ImageID: c.Image, ContainerID: containerID(p.UID, c.Name),
		Resources: resources, AllocatedResources: allocated,
		Ready: true, Started: ptr.To(true),
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
	}
}

// readyInit is an init container that has done its work, or a sidecar that runs.
func readyInit(p *corev1.Pod, c *corev1.Container, now metav1.Time) corev1.ContainerStatus {
	s := runningContainer(p, c, now)
	if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
		return s
	}
	s.Started = ptr.To(false)
	s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason: reasonCompleted, StartedAt: now, FinishedAt: now, ContainerID: s.ContainerID,
	}}
	return s
}

// succeed terminates all containers with exit code 0, and with them the pod.
func (k *kubelet) succeed() error {
	k.Status.Phase = corev1.PodSucceeded
	k.set(corev1.PodInitialized, corev1.ConditionTrue, reasonPodCompleted, "")
	k.Status.Conditions = terminalConditions(k.Pod, k.Status.Conditions, reasonPodCompleted, k.now)
	k.Status.InitContainerStatuses = completed(k.Status.InitContainerStatuses, true, k.now)
	k.Status.ContainerStatuses = completed(k.Status.ContainerStatuses, false, k.now)
	return nil
}

func terminalConditions(p *corev1.Pod, conditions []corev1.PodCondition, reason string, now metav1.Time) []corev1.PodCondition {
	conditions = SetCondition(conditions, condition(p, corev1.PodReady, corev1.ConditionFalse, reason), now)
	conditions = SetCondition(conditions, condition(p, corev1.ContainersReady, corev1.ConditionFalse, reason), now)
	return SetCondition(conditions, condition(p, corev1.PodReadyToStartContainers, corev1.ConditionFalse, ""), now)
}

// completed ends what runs with exit code 0. An init container that ended
// before stays ready, as a kubelet reports it.
func completed(before []corev1.ContainerStatus, init bool, now metav1.Time) []corev1.ContainerStatus {
	if len(before) == 0 {
		return before
	}
	out := append([]corev1.ContainerStatus(nil), before...)
	for i := range out {
		s := &out[i]
		if s.State.Terminated != nil && init {
			continue
		}
		s.Ready, s.Started = false, ptr.To(false)
		if s.State.Terminated != nil {
			continue
		}
		s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: reasonCompleted, StartedAt: startedAt(s, now), FinishedAt: now, ContainerID: s.ContainerID,
		}}
	}
	return out
}

func startedAt(s *corev1.ContainerStatus, otherwise metav1.Time) metav1.Time {
	if s.State.Running != nil && !s.State.Running.StartedAt.IsZero() {
		return s.State.Running.StartedAt
	}
	return otherwise
}

// killed ends what runs, and says of what never started that it is not known,
// as a kubelet does for a pod that is deleted.
func killed(containers []corev1.Container, before []corev1.ContainerStatus, init bool, now metav1.Time) []corev1.ContainerStatus {
	if len(containers) == 0 {
		return before
	}
	out := make([]corev1.ContainerStatus, len(containers))
	for i := range containers {
		s := &out[i]
		*s = corev1.ContainerStatus{Name: containers[i].Name, Image: containers[i].Image, Started: ptr.To(false)}
		for j := range before {
			if before[j].Name == s.Name {
				*s = before[j]
			}
		}
		if !init || s.State.Terminated == nil {
			s.Ready, s.Started = false, ptr.To(false)
		}
		switch {
		case s.State.Terminated != nil:
		case s.State.Running != nil:
			s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: exitKilled, Reason: reasonError, StartedAt: s.State.Running.StartedAt, FinishedAt: now, ContainerID: s.ContainerID,
			}}
		default:
			s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: exitKilled, Reason: reasonUnknownStatus, Message: "The container could not be located when the pod was deleted",
			}}
		}
	}
	return out
}

// containerID is stable over restarts of the engine and different for every
// container.
func containerID(uid types.UID, container string) string {
	const scheme = "rehearse://"
	sum := sha256.Sum256([]byte(string(uid) + "/" + container))
	var out [len(scheme) + 2*sha256.Size]byte
	copy(out[:], scheme)
	hex.Encode(out[len(scheme):], sum[:])
	return string(out[:])
}
