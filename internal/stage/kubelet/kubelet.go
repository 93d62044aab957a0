package kubelet

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/stage/limit"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The general pod stages say when something happens; what a kubelet then
// reports is worked out here, one function for each step of a pod's life. A
// template calls it by name, {{ Kubelet "create" . }}, and renders the whole
// status. Each step is pure: it reads the pod, the moment and nothing else.

// stepFuncs are the steps a template can ask for.
var stepFuncs = map[string]func(k *kubelet) error{
	"run":              (*kubelet).runAtOnce,
	"succeed":          (*kubelet).succeed,
	"create":           (*kubelet).create,
	"init-start":       (*kubelet).initStart,
	"init-exit":        (*kubelet).initExit,
	"start":            (*kubelet).start,
	"complete":         (*kubelet).complete,
	"exit":             (*kubelet).exit,
	"restart":          (*kubelet).restart,
	"renew":            (*kubelet).renew,
	"pull-fail":        (*kubelet).pullFail,
	"pull-wait":        (*kubelet).pullWait,
	"observe":          (*kubelet).observe,
	"ready":            (*kubelet).ready,
	"deadline":         (*kubelet).deadline,
	"evict":            (*kubelet).evict,
	"end":              (*kubelet).end,
	"container-failed": (*kubelet).containerFailed,
	"init-failed":      (*kubelet).initFailed,
}

// kubelet is one step on a working copy of a pod. What the status holds is
// shared with the object, so slices and pointers are replaced, never written to.
type kubelet struct {
	*corev1.Pod
	at  Moment
	now metav1.Time
}

// Step changes the status of a working copy of a pod. It replaces slices and maps and never changes what
// they hold, because the copy shares them.
type Step func(p *corev1.Pod, at Moment) error

// Moment is what a step reads besides the pod.
type Moment struct {
	Now       time.Time
	Addresses Addresses
}

// Addresses assigns the IP addresses of simulated nodes and pods.
type Addresses interface {
	// NodeIPs returns the addresses of a node, the primary one first.
	NodeIPs(node string) ([]string, error)
	// PodIPs returns the addresses of the pod with this UID on a node, and assigns one that no other pod in use
	// has to a pod that has none. The pod keeps it.
	PodIPs(uid types.UID, node string) ([]string, error)
}

// PodIPs returns the addresses of a pod: those of its node if it uses the network of the host.
func PodIPs(a Addresses, node string, hostNetwork bool, uid types.UID) ([]string, error) {
	if hostNetwork {
		return a.NodeIPs(node)
	}
	return a.PodIPs(uid, node)
}

// StepNames returns the names of the steps, sorted.
func StepNames() []string { return slices.Sorted(maps.Keys(stepFuncs)) }

// NewStep is a step as the code of a template.
func NewStep(name string) Step {
	return func(p *corev1.Pod, at Moment) error {
		k := &kubelet{Pod: p, at: at, now: metav1.NewTime(at.Now.UTC().Truncate(time.Second))}
		k.Status.InitContainerStatuses = slices.Clone(k.Status.InitContainerStatuses)
		k.Status.ContainerStatuses = slices.Clone(k.Status.ContainerStatuses)
		k.Status.Conditions = ownConditions(k.Pod)
		if !ignoresSpecChanges[name] {
			k.takeIn()
		}
		k.Status.ObservedGeneration = k.Generation
		return stepFuncs[name](k)
	}
}

// kubeletCall matches a template line that calls one step on the pod.
var kubeletCall = regexp.MustCompile(`^\{\{ *Kubelet +"([a-z-]+)" +\. *\}\}$`)

// StepOf returns the step that a template calls if it does nothing else, comments aside, or nil. Such a
// template needs no rendering: the step changes the status in place, with the same result.
func StepOf(template string) Step {
	call := ""
	for line := range strings.Lines(template) {
		line = strings.TrimSpace(line)
		comment := strings.HasPrefix(line, "#") && !strings.Contains(line, "{{") ||
			strings.HasPrefix(line, "{{/*") && strings.HasSuffix(line, "*/}}") && strings.Count(line, "{{") == 1
		switch {
		case line == "" || comment:
		case call != "":
			return nil
		default:
			call = line
		}
	}
	m := kubeletCall.FindStringSubmatch(call)
	if m == nil || stepFuncs[m[1]] == nil {
		return nil
	}
	return NewStep(m[1])
}

// StatusAfter is the template function Kubelet.
func StatusAfter(step string, object map[string]any, at Moment) (string, error) {
	if stepFuncs[step] == nil {
		return "", fmt.Errorf("unknown step %s; known: %s", limit.Quote(step), strings.Join(StepNames(), ", "))
	}
	data, err := json.Marshal(object)
	if err != nil {
		return "", err
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(data, pod); err != nil {
		return "", fmt.Errorf("its argument is not a pod: %w", err)
	}
	if err := NewStep(step)(pod, at); err != nil {
		return "", err
	}
	if data, err = json.Marshal(pod.Status); err != nil {
		return "", err
	}
	var status map[string]any
	if err := json.Unmarshal(data, &status); err != nil {
		return "", err
	}
	// A merge keeps what is not named; a condition's old words must go.
	conditions, _ := status["conditions"].([]any)
	for _, item := range conditions {
		if c, ok := item.(map[string]any); ok {
			for _, field := range []string{"reason", "message"} {
				if c[field] == nil {
					c[field] = nil
				}
			}
		}
	}
	data, err = json.Marshal(status)
	return string(data), err
}

// create gives the pod its addresses; all containers wait.
func (k *kubelet) create() error {
	if err := k.checkTimes(); err != nil {
		return err
	}
	nodeIPs, err := k.at.Addresses.NodeIPs(k.Spec.NodeName)
	if err != nil {
		return err
	}
	podIPs, err := PodIPs(k.at.Addresses, k.Spec.NodeName, k.Spec.HostNetwork, k.UID)
	if err != nil {
		return err
	}
	setIPs(&k.Status, nodeIPs, podIPs)
	k.Status.Phase = corev1.PodPending
	if k.Status.StartTime == nil || k.Status.StartTime.IsZero() {
		k.Status.StartTime = &k.now
	}
	waiting := reasonCreating
	if len(k.Spec.InitContainers) > 0 {
		waiting = reasonInitializing
	}
	k.Status.InitContainerStatuses = statusesOf(k.Spec.InitContainers, k.Status.InitContainerStatuses, reasonInitializing)
	k.Status.ContainerStatuses = statusesOf(k.Spec.Containers, k.Status.ContainerStatuses, waiting)
	k.refresh()
	return nil
}

// initStart starts the init container whose turn it is. A sidecar stays
// running, and so its start is all there is to wait for.
func (k *kubelet) initStart() error {
	k.Status.InitContainerStatuses = statusesOf(k.Spec.InitContainers, k.Status.InitContainerStatuses, reasonInitializing)
	for i := range k.Spec.InitContainers {
		c, s := &k.Spec.InitContainers[i], &k.Status.InitContainerStatuses[i]
		if initDone(c, s) {
			continue
		}
		if s.State.Waiting != nil {
			k.begin(c, s)
			s.Ready = isSidecar(c)
		}
		break
	}
	k.refresh()
	return nil
}

// initExit ends the init container that is at work.
func (k *kubelet) initExit() error {
	for i := range k.Spec.InitContainers {
		c, s := &k.Spec.InitContainers[i], statusOf(k.Status.InitContainerStatuses, k.Spec.InitContainers[i].Name)
		if s == nil || s.State.Running == nil || isSidecar(c) {
			continue
		}
		code, reason, err := k.exitOf(c.Name, s.RestartCount, true)
		if err != nil {
			return err
		}
		if k.stop(c, s, code, reason); s.State.Terminated != nil && code != 0 {
			k.fail("", "")
			return nil
		}
		s.Ready = code == 0
		break
	}
	k.refresh()
	return nil
}

// start starts the main containers.
func (k *kubelet) start() error {
	k.Status.Phase = corev1.PodRunning
	k.Status.ContainerStatuses = statusesOf(k.Spec.Containers, k.Status.ContainerStatuses, reasonCreating)
	for i := range k.Spec.Containers {
		c, s := &k.Spec.Containers[i], &k.Status.ContainerStatuses[i]
		if s.State.Waiting != nil && s.State.Waiting.Reason != reasonCrashLoop {
			k.begin(c, s)
			s.Ready = true
		}
	}
	k.refresh()
	return nil
}

// ready brings the conditions in line with containers and gates.
func (k *kubelet) ready() error {
	k.refresh()
	return nil
}

// pullFail reports images that cannot be had; the annotation names one
// container, or is "true" for all.
func (k *kubelet) pullFail() error {
	which := k.Annotations[AnnotationImagePullFails]
	k.pull(func(c *corev1.Container, _ *corev1.ContainerStatus) *corev1.ContainerStateWaiting {
		if which != "true" && which != c.Name {
			return nil
		}
		return &corev1.ContainerStateWaiting{Reason: reasonErrPull, Message: fmt.Sprintf("failed to pull image %q: not found", c.Image)}
	})
	return nil
}

// pullWait waits for the next try.
func (k *kubelet) pullWait() error {
	k.pull(func(c *corev1.Container, s *corev1.ContainerStatus) *corev1.ContainerStateWaiting {
		if s.State.Waiting.Reason != reasonErrPull {
			return nil
		}
		return &corev1.ContainerStateWaiting{Reason: reasonPullBackOff, Message: fmt.Sprintf("Back-off pulling image %q", c.Image)}
	})
	return nil
}

func (k *kubelet) pull(waiting func(c *corev1.Container, s *corev1.ContainerStatus) *corev1.ContainerStateWaiting) {
	for i := range k.Spec.Containers {
		c, s := &k.Spec.Containers[i], statusOf(k.Status.ContainerStatuses, k.Spec.Containers[i].Name)
		if s == nil || s.State.Waiting == nil || s.State.Waiting.Reason == reasonCrashLoop {
			continue
		}
		if w := waiting(c, s); w != nil {
			s.State.Waiting = w
		}
	}
	k.refresh()
}

// run puts a container into the state running.
func (k *kubelet) run(c *corev1.Container, s *corev1.ContainerStatus) {
	started := true
	s.Image, s.ImageID = c.Image, c.Image
	s.Resources, s.AllocatedResources = resourcesOf(c)
	s.ContainerID = containerID(k.UID, c.Name)
	if s.RestartCount > 0 {
		s.ContainerID = containerID(k.UID, fmt.Sprintf("%s/%d", c.Name, s.RestartCount))
	}
	s.Started = &started
	s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: k.now}}
}

// statusesOf is one status for each container, in their order: the one there
// is, or one that waits.
func statusesOf(containers []corev1.Container, before []corev1.ContainerStatus, reason string) []corev1.ContainerStatus {
	if len(containers) == 0 {
		return before
	}
	out := make([]corev1.ContainerStatus, len(containers))
	for i := range containers {
		if s := statusOf(before, containers[i].Name); s != nil && s.State != (corev1.ContainerState{}) {
			out[i] = *s
			continue
		}
		started := false
		out[i] = corev1.ContainerStatus{
			Name: containers[i].Name, Image: containers[i].Image, Started: &started,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
		}
	}
	return out
}

func statusOf(statuses []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == name {
			return &statuses[i]
		}
	}
	return nil
}
