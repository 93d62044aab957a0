package kubeletapi

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// instance is one run of a container, from its start to its end.
type instance struct {
	started  time.Time
	restarts int32
	running  bool
}

// logInstance returns the run of a container whose log a request selects. Without one, its error has the text of a kubelet's error.
func logInstance(pod *corev1.Pod, container string, previous bool) (instance, error) {
	s, ok := containerStatus(&pod.Status, container)
	last := s.LastTerminationState.Terminated
	switch {
	case !ok && previous:
		return instance{}, fmt.Errorf("previous terminated container %q in pod %q not found", container, pod.Name)
	case !ok && podStarted(pod):
		// Stages may set the phase of a pod and no status of its containers.
		return instance{started: startOf(pod).Time, running: podRuns(pod)}, nil
	case !ok:
		return instance{}, fmt.Errorf("container %q in pod %q is not available", container, pod.Name)
	case previous && last == nil:
		return instance{}, fmt.Errorf("previous terminated container %q in pod %q not found", container, pod.Name)
	case previous:
		return instance{started: last.StartedAt.Time, restarts: s.RestartCount - 1}, nil
	case s.State.Running != nil:
		return instance{started: s.State.Running.StartedAt.Time, restarts: s.RestartCount, running: podRuns(pod)}, nil
	case s.State.Terminated != nil:
		return instance{started: s.State.Terminated.StartedAt.Time, restarts: s.RestartCount}, nil
	case last != nil: // the container waits for its next start
		return instance{started: last.StartedAt.Time, restarts: s.RestartCount}, nil
	case s.State.Waiting == nil:
		return instance{}, fmt.Errorf("container %q in pod %q is waiting to start - no logs yet", container, pod.Name)
	}
	reason := s.State.Waiting.Reason
	switch reason {
	case "ErrImagePull":
		reason = "image can't be pulled"
	case "ImagePullBackOff":
		reason = "trying and failing to pull image"
	}
	return instance{}, fmt.Errorf("container %q in pod %q is waiting to start: %s", container, pod.Name, reason)
}

// runs reports whether a run of a container goes on in a newer version of its pod.
func (i instance) runs(pod *corev1.Pod, uid types.UID, container string) bool {
	if pod.UID != uid || !podRuns(pod) {
		return false
	}
	s, ok := containerStatus(&pod.Status, container)
	return !ok || s.State.Running != nil && s.RestartCount == i.restarts
}

func containerStatus(s *corev1.PodStatus, container string) (corev1.ContainerStatus, bool) {
	for _, list := range [][]corev1.ContainerStatus{s.ContainerStatuses, s.InitContainerStatuses, s.EphemeralContainerStatuses} {
		if i := slices.IndexFunc(list, func(c corev1.ContainerStatus) bool { return c.Name == container }); i >= 0 {
			return list[i], true
		}
	}
	return corev1.ContainerStatus{}, false
}

func podRuns(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// podStarted reports whether the phase says that the containers of a pod have started.
func podStarted(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning || !podRuns(pod)
}

func startOf(pod *corev1.Pod) metav1.Time {
	if pod.Status.StartTime != nil {
		return *pod.Status.StartTime
	}
	return pod.CreationTimestamp
}

// retryPause is the time between two attempts to watch a pod.
const retryPause = time.Second

// ended returns a channel that is closed when a run of a container has ended. It watches the pod until then, or until ctx ends.
func (s *Server) ended(ctx context.Context, t target, i instance) <-chan struct{} {
	done := make(chan struct{})
	if !i.running {
		close(done)
		return done
	}
	go func() {
		for ctx.Err() == nil {
			if ended, err := s.awaitEnd(ctx, t, i); ended {
				close(done)
				return
			} else if err != nil {
				select {
				case <-ctx.Done():
				case <-time.After(retryPause):
				}
			}
		}
	}()
	return done
}

// awaitEnd watches a pod until the run has ended. It returns false when the watch ends before that.
func (s *Server) awaitEnd(ctx context.Context, t target, i instance) (bool, error) {
	c, err := s.clients()
	if err != nil {
		return false, err
	}
	pods := c.core.Pods(t.pod.Namespace)
	pod, err := pods.Get(ctx, t.pod.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	} else if err != nil {
		return false, err
	}
	if !i.runs(pod, t.pod.UID, t.container) {
		return true, nil
	}
	w, err := pods.Watch(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector(metav1.ObjectNameField, pod.Name).String(),
		ResourceVersion: pod.ResourceVersion,
	})
	if err != nil {
		return false, err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		pod, ok := e.Object.(*corev1.Pod)
		if !ok {
			return false, apierrors.FromObject(e.Object)
		}
		if e.Type == watch.Deleted || !i.runs(pod, t.pod.UID, t.container) {
			return true, nil
		}
	}
	return false, nil
}
