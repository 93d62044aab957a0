package kubelet

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/stage/limit"
	corev1 "k8s.io/api/core/v1"
)

// How containers end, whether they come back, and when.

// Reasons of containers and pods, as a kubelet writes them.
const (
	reasonCreating     = "ContainerCreating"
	reasonInitializing = "PodInitializing"
	reasonCrashLoop    = "CrashLoopBackOff"
	reasonErrPull      = "ErrImagePull"
	reasonPullBackOff  = "ImagePullBackOff"
	reasonOOM          = "OOMKilled"
)

// The kubelet's back-off between restarts (pkg/kubelet/kubelet.go,
// client-go/util/flowcontrol).
const (
	firstBackOff = 10 * time.Second
	mostBackOff  = 5 * time.Minute
	forgetAfter  = 2 * mostBackOff
)

// Annotations of a pod that say what its containers do. Those for all containers
// mean the main ones; with ".NAME" after it each is about one container.
const (
	AnnotationRunFor         = "rehearse-k8s.github.io/run-for"
	AnnotationExitCode       = "rehearse-k8s.github.io/exit-code"
	AnnotationImagePullFails = "rehearse-k8s.github.io/image-pull-fails"
	AnnotationEvict          = "rehearse-k8s.github.io/evict"
)

// checkTimes rejects malformed times to run before anything starts: nothing would ever come due by them.
func (k *kubelet) checkTimes() error {
	for _, key := range slices.Sorted(maps.Keys(k.Annotations)) {
		if key != AnnotationRunFor && !strings.HasPrefix(key, AnnotationRunFor+".") {
			continue
		}
		if _, ok := wholeSeconds(k.Annotations[key]); !ok {
			return fmt.Errorf("annotation %s: %s is not a time in whole seconds, such as 30s, 5m or 1h30m", key, limit.Quote(k.Annotations[key]))
		}
	}
	return nil
}

// exitOf reads how a container ends: a number, or OOMKilled; of a list, the n-th
// is for the n-th run and the last for all after it.
func (k *kubelet) exitOf(name string, restarts int32, init bool) (code int32, reason string, err error) {
	key := AnnotationExitCode + "." + name
	text, ok := k.Annotations[key]
	if !ok && !init {
		key = AnnotationExitCode
		text = k.Annotations[key]
	}
	if text == "" {
		return 0, reasonCompleted, nil
	}
	list := strings.Split(text, ",")
	one := strings.TrimSpace(list[min(int(max(restarts, 0)), len(list)-1)])
	if one == reasonOOM {
		return exitKilled, reasonOOM, nil
	}
	if code, err = exitNumber(one); err != nil {
		return 0, "", fmt.Errorf("annotation %s: %w, nor %s", key, err, reasonOOM)
	}
	if code == 0 {
		return 0, reasonCompleted, nil
	}
	return code, reasonError, nil
}

func exitNumber(text string) (int32, error) {
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil {
		return 0, fmt.Errorf("%s is not an exit code from 0 to 255", limit.Quote(text))
	}
	return int32(n), nil
}

// complete ends the main containers that nothing else ends: those without a
// time to run of their own.
func (k *kubelet) complete() error {
	return k.endMain(func(c *corev1.Container, _ *corev1.ContainerStatus) bool {
		_, all := k.Annotations[AnnotationRunFor]
		_, own := k.Annotations[AnnotationRunFor+"."+c.Name]
		return !all && !own
	})
}

// exit ends the containers whose time is up; a sidecar's too, which comes back.
func (k *kubelet) exit() error {
	for i := range k.Spec.InitContainers {
		c, s := &k.Spec.InitContainers[i], statusOf(k.Status.InitContainerStatuses, k.Spec.InitContainers[i].Name)
		if s == nil || !isSidecar(c) || !k.timeIsUp(s, true) {
			continue
		}
		code, reason, err := k.exitOf(c.Name, s.RestartCount, true)
		if err != nil {
			return err
		}
		k.stop(c, s, code, reason)
	}
	return k.endMain(func(_ *corev1.Container, s *corev1.ContainerStatus) bool { return k.timeIsUp(s, false) })
}

func (k *kubelet) timeIsUp(s *corev1.ContainerStatus, init bool) bool {
	at, ok := exitTime(k.Annotations, s, init)
	return ok && !at.After(k.at.Now)
}

func (k *kubelet) endMain(which func(c *corev1.Container, s *corev1.ContainerStatus) bool) error {
	for i := range k.Spec.Containers {
		c, s := &k.Spec.Containers[i], statusOf(k.Status.ContainerStatuses, k.Spec.Containers[i].Name)
		if s == nil || s.State.Running == nil || !which(c, s) {
			continue
		}
		code, reason, err := k.exitOf(c.Name, s.RestartCount, false)
		if err != nil {
			return err
		}
		k.stop(c, s, code, reason)
	}
	k.settle()
	return nil
}

// stop terminates a running container. One that restarts does so at once the first time and after a long run;
// otherwise it waits.
func (k *kubelet) stop(c *corev1.Container, s *corev1.ContainerStatus, code int32, reason string) {
	wait, ready := k.backOff(s), s.Ready
	k.ended(s, code, reason)
	if !k.comesBack(c, code) {
		return
	}
	if wait == 0 {
		k.again(c, s)
		s.Ready = ready
		return
	}
	s.LastTerminationState = s.State
	s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason:  reasonCrashLoop,
		Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)", wait, c.Name, k.Name, k.Namespace, k.UID),
	}}
}

// ended sets the state of a running container to terminated.
func (k *kubelet) ended(s *corev1.ContainerStatus, code int32, reason string) {
	started := false
	s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, StartedAt: startedAt(s, k.now), FinishedAt: k.now, ContainerID: s.ContainerID,
	}}
	s.Ready, s.Started = false, &started
}

// begin starts a waiting container, for the first time or again.
func (k *kubelet) begin(c *corev1.Container, s *corev1.ContainerStatus) {
	if s.ContainerID == "" {
		k.run(c, s)
		return
	}
	k.again(c, s)
}

// again restarts a container.
func (k *kubelet) again(c *corev1.Container, s *corev1.ContainerStatus) {
	if s.State.Terminated != nil {
		s.LastTerminationState = s.State
	}
	s.RestartCount++
	k.run(c, s)
}

// restart starts what has waited long enough.
func (k *kubelet) restart() error {
	start := func(containers []corev1.Container, statuses []corev1.ContainerStatus, ready func(c *corev1.Container) bool) {
		for i := range containers {
			c, s := &containers[i], statusOf(statuses, containers[i].Name)
			if s == nil {
				continue
			}
			if at, ok := restartTime(s); ok && !at.After(k.at.Now) {
				k.again(c, s)
				s.Ready = ready(c)
			}
		}
	}
	start(k.Spec.InitContainers, k.Status.InitContainerStatuses, isSidecar)
	start(k.Spec.Containers, k.Status.ContainerStatuses, func(*corev1.Container) bool { return true })
	k.refresh()
	return nil
}

// backOff returns how long a container that terminates now waits. The wait before this run shows how often it has been
// doubled; a long run resets it.
func (k *kubelet) backOff(s *corev1.ContainerStatus) time.Duration {
	began := startedAt(s, k.now)
	last := s.LastTerminationState.Terminated
	if s.RestartCount == 0 || k.now.Sub(began.Time) >= forgetAfter {
		return 0
	}
	wait := firstBackOff
	if last == nil {
		return wait
	}
	for waited := began.Sub(last.FinishedAt.Time); wait <= waited && wait < mostBackOff; {
		wait *= 2
	}
	return min(wait, mostBackOff)
}

// comesBack reports whether a container restarts after an exit: by its own rules and policy, else by the pod's.
func (k *kubelet) comesBack(c *corev1.Container, code int32) bool {
	for _, rule := range c.RestartPolicyRules {
		if rule.Action != corev1.ContainerRestartRuleActionRestart || rule.ExitCodes == nil {
			continue
		}
		in := rule.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn
		if slices.Contains(rule.ExitCodes.Values, code) == in {
			return true
		}
	}
	policy := k.Spec.RestartPolicy
	if c.RestartPolicy != nil {
		policy = corev1.RestartPolicy(*c.RestartPolicy)
	} else if policy != corev1.RestartPolicyNever && k.isInit(c) {
		policy = corev1.RestartPolicyOnFailure // it is done when it has succeeded
	}
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return code != 0
	}
	return true
}

func (k *kubelet) isInit(c *corev1.Container) bool {
	return slices.ContainsFunc(k.Spec.InitContainers, func(i corev1.Container) bool { return i.Name == c.Name })
}

func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// initDone reports whether the next init container may start.
func initDone(c *corev1.Container, s *corev1.ContainerStatus) bool {
	if isSidecar(c) {
		return s.State.Running != nil
	}
	return s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
}
