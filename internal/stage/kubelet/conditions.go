package kubelet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/internal/stage/limit"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Conditions and phases, worked out from the containers as in a kubelet
// (pkg/kubelet/status/generate.go, pkg/kubelet/kubelet_pods.go).

const (
	reasonNotInitialized     = "ContainersNotInitialized"
	reasonContainersNotReady = "ContainersNotReady"
	reasonEvicted            = "Evicted"
	reasonDeadline           = "DeadlineExceeded"
)

func (k *kubelet) set(t corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) {
	c := condition(k.Pod, t, status, reason)
	c.Message = message
	k.Status.Conditions = SetCondition(k.Status.Conditions, c, k.now)
}

// refresh makes the conditions of a pod that lives say what its containers do.
func (k *kubelet) refresh() {
	k.set(corev1.PodReadyToStartContainers, corev1.ConditionTrue, "", "")
	if !IsConditionTrue(k.Status.Conditions, corev1.PodScheduled) {
		k.set(corev1.PodScheduled, corev1.ConditionTrue, "", "")
	}
	var undone, unready []string
	for i := range k.Spec.InitContainers {
		c := &k.Spec.InitContainers[i]
		s := statusOf(k.Status.InitContainerStatuses, c.Name)
		if s == nil || !initDone(c, s) {
			undone = append(undone, c.Name)
		}
		if isSidecar(c) && (s == nil || !s.Ready) {
			unready = append(unready, c.Name)
		}
	}
	for i := range k.Spec.Containers {
		if s := statusOf(k.Status.ContainerStatuses, k.Spec.Containers[i].Name); s == nil || !s.Ready {
			unready = append(unready, k.Spec.Containers[i].Name)
		}
	}
	// What is initialized once stays so.
	if len(undone) > 0 && k.Status.Phase == corev1.PodPending && !IsConditionTrue(k.Status.Conditions, corev1.PodInitialized) {
		k.set(corev1.PodInitialized, corev1.ConditionFalse, reasonNotInitialized, fmt.Sprintf("containers with incomplete status: %s", undone))
	} else {
		k.set(corev1.PodInitialized, corev1.ConditionTrue, "", "")
	}
	if len(unready) > 0 {
		message := fmt.Sprintf("containers with unready status: %s", unready)
		k.set(corev1.ContainersReady, corev1.ConditionFalse, reasonContainersNotReady, message)
		k.set(corev1.PodReady, corev1.ConditionFalse, reasonContainersNotReady, message)
		return
	}
	k.set(corev1.ContainersReady, corev1.ConditionTrue, "", "")
	if message := closedGates(k.Pod, k.Status.Conditions); message != "" {
		k.set(corev1.PodReady, corev1.ConditionFalse, reasonGatesNotReady, message)
		return
	}
	k.set(corev1.PodReady, corev1.ConditionTrue, "", "")
}

// closedGates says which readiness gates keep a pod from being ready; "" for none.
// To set them is the business of others.
func closedGates(p *corev1.Pod, conditions []corev1.PodCondition) string {
	var out []string
	for _, gate := range p.Spec.ReadinessGates {
		i := slices.IndexFunc(conditions, func(c corev1.PodCondition) bool { return c.Type == gate.ConditionType })
		switch {
		case i < 0:
			out = append(out, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case conditions[i].Status != corev1.ConditionTrue:
			out = append(out, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %s", gate.ConditionType, conditions[i].Status))
		}
	}
	return strings.Join(out, ", ")
}

// settle ends the pod when all its main containers have ended for good, and
// with it the sidecars.
func (k *kubelet) settle() {
	ended, failed := len(k.Spec.Containers) > 0, false
	for i := range k.Spec.Containers {
		s := statusOf(k.Status.ContainerStatuses, k.Spec.Containers[i].Name)
		if s == nil || s.State.Terminated == nil {
			ended = false
			break
		}
		failed = failed || s.State.Terminated.ExitCode != 0
	}
	if !ended {
		k.refresh()
		return
	}
	k.Status.InitContainerStatuses = completed(k.Status.InitContainerStatuses, true, k.now)
	phase, reason := corev1.PodSucceeded, reasonPodCompleted
	if failed {
		phase, reason = corev1.PodFailed, reasonPodFailed
	} else {
		k.set(corev1.PodInitialized, corev1.ConditionTrue, reasonPodCompleted, "")
	}
	k.Status.Phase = phase
	k.Status.Conditions = terminalConditions(k.Pod, k.Status.Conditions, reason, k.now)
}

// fail ends the pod; containers that have not ended stay as they are.
func (k *kubelet) fail(reason, message string) {
	k.Status.Phase = corev1.PodFailed
	if reason != "" {
		k.Status.Reason, k.Status.Message = reason, message
	}
	k.Status.Conditions = terminalConditions(k.Pod, k.Status.Conditions, reasonPodFailed, k.now)
}

// end kills what runs, as for a pod that is being deleted.
func (k *kubelet) end() error {
	k.Status.InitContainerStatuses = killed(k.Spec.InitContainers, k.Status.InitContainerStatuses, true, k.now)
	k.Status.ContainerStatuses = killed(k.Spec.Containers, k.Status.ContainerStatuses, false, k.now)
	k.fail("", "")
	return nil
}

func (k *kubelet) deadline() error {
	if err := k.end(); err != nil {
		return err
	}
	k.fail(reasonDeadline, "Pod was active on the node longer than the specified deadline")
	return nil
}

// evict is what a node under pressure does; the annotation names what it lacks.
func (k *kubelet) evict() error {
	resource := k.Annotations[AnnotationEvict]
	if resource == "" || resource == "true" {
		resource = string(corev1.ResourceMemory)
	}
	message := fmt.Sprintf("The node was low on resource: %s. ", resource)
	if err := k.end(); err != nil {
		return err
	}
	k.fail(reasonEvicted, message)
	k.set(corev1.DisruptionTarget, corev1.ConditionTrue, corev1.PodReasonTerminationByKubelet, message)
	return nil
}

// containerFailed and initFailed terminate one container and with it the pod, whatever its restart policy, as
// pod-chaos documents. KWOK's annotations say which container and how.
func (k *kubelet) containerFailed() error {
	return k.chaos("pod-container-running-failed", k.Spec.Containers, k.Status.ContainerStatuses)
}

func (k *kubelet) initFailed() error {
	return k.chaos("pod-init-container-running-failed", k.Spec.InitContainers, k.Status.InitContainerStatuses)
}

func (k *kubelet) chaos(stage string, containers []corev1.Container, statuses []corev1.ContainerStatus) error {
	said := func(key, otherwise string) string {
		if text := k.Annotations[stage+".stage.kwok.x-k8s.io/"+key]; text != "" {
			return text
		}
		return otherwise
	}
	if len(containers) == 0 {
		return nil
	}
	name := said("container-name", containers[0].Name)
	s := statusOf(statuses, name)
	if s == nil {
		return fmt.Errorf("annotation %s.stage.kwok.x-k8s.io/container-name: the pod has no status of a container %s", stage, limit.Quote(name))
	}
	code, err := exitNumber(said("exit-code", "1"))
	if err != nil {
		return fmt.Errorf("annotation %s.stage.kwok.x-k8s.io/exit-code: %w", stage, err)
	}
	k.ended(s, code, said("reason", stage))
	s.State.Terminated.Message = said("message", "")
	s.Started = ptr.To(false)
	k.fail(said("reason", stage), said("message", ""))
	return nil
}

// IsConditionTrue reports whether a condition is there and True.
func IsConditionTrue(conditions []corev1.PodCondition, t corev1.PodConditionType) bool {
	for i := range conditions {
		if conditions[i].Type == t && conditions[i].Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}
