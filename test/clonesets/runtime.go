package clonesets

import (
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// containerRuntime contains the containers of pods on the nodes. It outlives the kubelet.
type containerRuntime struct {
	mu   sync.Mutex // a crashed kubelet may still be stopping
	pods map[types.UID]*sandbox
}

// sandbox contains the containers of one pod.
type sandbox struct {
	containers []corev1.ContainerStatus
	// conditions are those that the kubelet has set, with its own transition times.
	conditions []corev1.PodCondition
	// environment is the environment that a container was started with, by name.
	environment map[string]string
	// pod is the newest version of the pod that the kubelet has acted on, and since is when it started to.
	pod   *corev1.Pod
	since time.Time
	// crashed: the first container has crashed. changed is the newest generation that has reached the node,
	// arrived is when it did, and changeCrashed the generation that a crash has followed.
	crashed                bool
	changed, changeCrashed int64
	arrived                time.Time
}

func newRuntime() *containerRuntime { return &containerRuntime{pods: map[types.UID]*sandbox{}} }

// run makes the containers run the spec of a pod, and returns its status and when it next changes. cached is
// the pod in the API, for the conditions of other writers and to detect when a change has arrived.
func (r *containerRuntime) run(pod, cached *corev1.Pod, b Behaviour, now time.Time) (*corev1.PodStatus, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.pods[pod.UID]
	if s == nil {
		s = &sandbox{environment: map[string]string{}, changed: cached.Generation, changeCrashed: cached.Generation, arrived: now}
		r.pods[pod.UID] = s
	}
	if cached.Generation > s.changed {
		s.changed, s.arrived = cached.Generation, now
	}
	if s.pod == nil || pod.Generation > s.pod.Generation {
		s.since = now
	}
	if s.pod == nil || pod.Generation >= s.pod.Generation { // never back to an older spec
		s.pod = pod
	}
	next := s.pod.DeepCopy()
	next.Status = *cached.Status.DeepCopy()
	next.Status.ContainerStatuses = s.containers
	for _, c := range s.conditions {
		if is := conditionOf(next, c.Type); is != nil {
			*is = c
		} else {
			next.Status.Conditions = append(next.Status.Conditions, c)
		}
	}
	for i := range s.pod.Status.Conditions { // readiness gates, as the kubelet has observed them
		seen := &s.pod.Status.Conditions[i]
		if is := conditionOf(next, seen.Type); is != nil && slices.Contains(s.pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: seen.Type}) {
			*is = *seen
		}
	}
	wake := s.crash(next, b, now)
	environment := environmentOf(s.pod)
	wake = sooner(wake, s.run(next, environment, b, now))
	s.containers = nil
	for i := range next.Status.ContainerStatuses {
		s.containers = append(s.containers, *next.Status.ContainerStatuses[i].DeepCopy())
	}
	s.conditions = nil
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		s.conditions = append(s.conditions, *conditionOf(next, kind))
	}
	for i := range cached.Status.Conditions { // other clients write gates
		if c := &cached.Status.Conditions[i]; c.Type != corev1.ContainersReady && c.Type != corev1.PodReady {
			*conditionOf(next, c.Type) = *c
		}
	}
	return &next.Status, wake
}

// run is the run of containerRuntime for one pod.
func (s *sandbox) run(pod *corev1.Pod, environment map[string]string, b Behaviour, now time.Time) time.Duration {
	before := map[string]string{}
	for _, c := range pod.Status.ContainerStatuses {
		before[c.Name] = c.ContainerID
	}
	kept := func(name string) bool { return s.environment[name] == environment[name] }
	wake := update(pod, b, acting{restartsAsked(pod, kept), now.Sub(s.since)}, now)
	for _, c := range pod.Status.ContainerStatuses {
		if c.ContainerID != before[c.Name] {
			s.environment[c.Name] = environment[c.Name]
		}
	}
	return wake
}

// crash makes the first container crash when it is due, and returns when that is.
func (s *sandbox) crash(pod *corev1.Pod, b Behaviour, now time.Time) (wake time.Duration) {
	if len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].State.Running == nil {
		return 0
	}
	first := &pod.Status.ContainerStatuses[0]
	due := func(at time.Time) bool {
		if rest := at.Sub(now); rest > 0 {
			wake = sooner(wake, rest)
			return false
		}
		return true
	}
	crashes := false
	if b.Crash > 0 && !s.crashed && due(first.State.Running.StartedAt.Add(b.Crash)) {
		s.crashed, crashes = true, true
	}
	if b.CrashOnChange > 0 && s.changeCrashed < s.changed && due(s.arrived.Add(b.CrashOnChange)) {
		s.changeCrashed, crashes = s.changed, true
	}
	if crashes {
		stop(first, now, "Error", 1)
		first.LastTerminationState, first.State = first.State, corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"},
		}
	}
	return wake
}

// environmentOf returns the environment of containers that comes from the pod's metadata.
func environmentOf(pod *corev1.Pod) map[string]string {
	all := map[string]string{}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		for _, e := range c.Env {
			if e.ValueFrom == nil || e.ValueFrom.FieldRef == nil {
				continue
			}
			for _, from := range []map[string]string{pod.Labels, pod.Annotations} {
				for key, value := range from {
					if path := e.ValueFrom.FieldRef.FieldPath; path == fmt.Sprintf("metadata.labels['%s']", key) || path == fmt.Sprintf("metadata.annotations['%s']", key) {
						all[c.Name] += e.Name + "=" + value + "\n"
					}
				}
			}
		}
	}
	return all
}
