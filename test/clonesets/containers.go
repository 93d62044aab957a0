package clonesets

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/api/kruise"
)

// killed is the exit code of a container that was stopped.
const killed = 137

// acting is what a kubelet knows in addition to the pod when it acts on it.
type acting struct {
	// asked reports whether a container must restart although its image is the same.
	asked func(*corev1.ContainerStatus) bool
	// since is how long ago the kubelet started to act on this version of the spec.
	since time.Duration
}

// update makes the status of a pod show what its containers do now, and returns when it next changes.
// Conditions of other writers stay as they are.
func update(pod *corev1.Pod, b Behaviour, a acting, now time.Time) (wake time.Duration) {
	status := &pod.Status
	status.Phase = corev1.PodRunning
	status.ObservedGeneration = pod.Generation
	if status.StartTime == nil {
		status.StartTime = ptr.To(metav1.NewTime(now))
	}
	before := status.ContainerStatuses
	status.ContainerStatuses = nil
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		s := corev1.ContainerStatus{Name: c.Name}
		if j := slices.IndexFunc(before, func(s corev1.ContainerStatus) bool { return s.Name == c.Name }); j >= 0 {
			s = before[j]
		}
		if s.State.Running != nil && (s.Image != c.Image || a.asked(&s) || resizeRestarts(c, &s)) {
			if rest := b.Kill - a.since; rest > 0 {
				wake = sooner(wake, rest)
			} else {
				stop(&s, now, "Completed", 0)
				s.LastTerminationState, s.State = s.State, corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"},
				}
			}
		}
		if s.State.Running == nil {
			if rest := downFor(&s, b.Restart, now); rest > 0 {
				wake = sooner(wake, rest)
			} else {
				begin(pod, c, &s, b, now)
			}
		} else if !resizeRestarts(c, &s) && !resizedTo(c, &s) {
			if rest := b.Resize - a.since; rest > 0 {
				wake = sooner(wake, rest)
			} else {
				resize(c, &s)
			}
		}
		s.Ready = s.State.Running != nil && !slices.Contains(b.Unready, c.Name)
		status.ContainerStatuses = append(status.ContainerStatuses, s)
	}
	updateReady(pod, now)
	return wake
}

// restartsAsked simulates OpenKruise's daemon: containers with environment variables from the pod's metadata
// restart when an update in place has changed that metadata, if they are the containers that the update has
// recorded, or were started with the old metadata.
func restartsAsked(pod *corev1.Pod, kept func(container string) bool) func(*corev1.ContainerStatus) bool {
	var u kruise.InPlaceUpdateState
	if err := json.Unmarshal([]byte(pod.Annotations[kruise.AnnotationInPlaceState]), &u); err != nil || !u.UpdateEnvFromMetadata {
		return func(*corev1.ContainerStatus) bool { return false }
	}
	return func(s *corev1.ContainerStatus) bool {
		was, changed := u.LastContainerStatuses[s.Name]
		return changed && s.ContainerID != "" && (s.ContainerID == was.ContainerID || !kept(s.Name))
	}
}

// downFor returns how much longer a container that has exited stays down. The pod contains the time of the
// exit, so that a restarted kubelet knows it too.
func downFor(s *corev1.ContainerStatus, restart time.Duration, now time.Time) time.Duration {
	last := s.LastTerminationState.Terminated
	if last == nil || restart == 0 {
		return 0
	}
	return last.FinishedAt.Add(restart).Sub(now)
}

// sooner returns the shorter of two waits, of which 0 means none.
func sooner(wake, other time.Duration) time.Duration {
	if wake == 0 || other == 0 {
		return max(wake, other)
	}
	return min(wake, other)
}

// begin starts a container, for the first time or again.
func begin(pod *corev1.Pod, c *corev1.Container, s *corev1.ContainerStatus, b Behaviour, now time.Time) {
	if s.LastTerminationState.Terminated != nil {
		s.RestartCount++
	}
	s.Image, s.ImageID = c.Image, c.Image
	if b.SameImage {
		s.ImageID = "the same"
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", pod.UID, c.Name, s.RestartCount))
	s.ContainerID = fmt.Sprintf("rehearse://%x", sum[:8])
	s.Started = ptr.To(true)
	resize(c, s)
	s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now)}}
}

// stop terminates a running container.
func stop(s *corev1.ContainerStatus, now time.Time, reason string, code int32) {
	s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, ContainerID: s.ContainerID,
		StartedAt: s.State.Running.StartedAt, FinishedAt: metav1.NewTime(now),
	}}
	s.Ready, s.Started = false, ptr.To(false)
}

// resizeRestarts reports whether a container must restart to get the resources of its spec.
func resizeRestarts(c *corev1.Container, s *corev1.ContainerStatus) bool {
	return s.Resources != nil && slices.ContainsFunc(c.ResizePolicy, func(p corev1.ContainerResizePolicy) bool {
		request, limit := s.Resources.Requests[p.ResourceName], s.Resources.Limits[p.ResourceName]
		return p.RestartPolicy == corev1.RestartContainer &&
			(request.Cmp(c.Resources.Requests[p.ResourceName]) != 0 || limit.Cmp(c.Resources.Limits[p.ResourceName]) != 0)
	})
}

// resizedTo reports whether a container has the resources of its spec.
func resizedTo(c *corev1.Container, s *corev1.ContainerStatus) bool {
	is := corev1.ResourceRequirements{}
	if s.Resources != nil {
		is = *s.Resources
	}
	return equality.Semantic.DeepEqual(is.Requests, c.Resources.Requests) && equality.Semantic.DeepEqual(is.Limits, c.Resources.Limits)
}

// resize gives a container the resources of its spec.
func resize(c *corev1.Container, s *corev1.ContainerStatus) {
	s.Resources, s.AllocatedResources = nil, nil
	if len(c.Resources.Limits)+len(c.Resources.Requests) > 0 {
		s.Resources = &corev1.ResourceRequirements{Limits: c.Resources.Limits, Requests: c.Resources.Requests}
		s.AllocatedResources = c.Resources.Requests
	}
}

// updateReady computes whether the pod is ready, as a kubelet does (GeneratePodReadyCondition).
func updateReady(pod *corev1.Pod, now time.Time) {
	var unready, closed []string
	for _, s := range pod.Status.ContainerStatuses {
		if !s.Ready {
			unready = append(unready, s.Name)
		}
	}
	for _, gate := range pod.Spec.ReadinessGates {
		c := conditionOf(pod, gate.ConditionType)
		switch {
		case c == nil:
			closed = append(closed, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case c.Status != corev1.ConditionTrue:
			closed = append(closed, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", gate.ConditionType, c.Status))
		}
	}
	containers := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}
	if len(unready) > 0 {
		containers.Status, containers.Reason = corev1.ConditionFalse, "ContainersNotReady"
		containers.Message = fmt.Sprintf("containers with unready status: %s", unready)
	}
	ready := containers
	ready.Type = corev1.PodReady
	if len(unready) == 0 && len(closed) > 0 {
		ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, "ReadinessGatesNotReady", strings.Join(closed, ", ")
	}
	set(pod, containers, now)
	set(pod, ready, now)
}

// end terminates all containers and the pod.
func end(pod *corev1.Pod, now time.Time) {
	pod.Status.Phase = corev1.PodFailed
	pod.Status.ObservedGeneration = pod.Generation
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.State.Running != nil {
			stop(s, now, "Error", killed)
		}
	}
	for _, t := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		set(pod, corev1.PodCondition{Type: t, Status: corev1.ConditionFalse, Reason: "PodFailed"}, now)
	}
}

// set writes a condition; its transition time changes only with its status.
func set(pod *corev1.Pod, c corev1.PodCondition, now time.Time) {
	c.ObservedGeneration, c.LastTransitionTime = pod.Generation, metav1.NewTime(now)
	old := conditionOf(pod, c.Type)
	if old == nil {
		pod.Status.Conditions = append(pod.Status.Conditions, c)
		return
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	*old = c
}

func conditionOf(pod *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == t {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
