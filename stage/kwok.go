package stage

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// KWOK publishes stages for pods, and most clusters that use KWOK use these, as they are. The
// templates of v0.8.0 are known here by the checksum of their text, and Go code says what they
// say, twenty times as fast; test/compat/kwok compares it with KWOK's own engine and with the
// rendered template. A pod that the code is not for, and any other text, is rendered.
var kwokPatches = map[string]nativePatch{
	"fd243cd7dd313e5737ef86de9369c07c74d8e97c0cda8246bac34af193c2243d": onPod(kwokFastReady),
	"1fe329758ca19907660c3bad1ab7750c1f5f9fc25868919a53e6bb32120d09ee": onPod(kwokComplete(false)),
	"da0c20a946426d52ca140cf4224af3d1f214d8b7d0549036af0ccf8fc78d0db7": onPod(kwokCreate),
	"004a6db424df147d1940a1c69e00f83ac18b888334c5e194a8b8981250e85f74": onPod(kwokInitRunning),
	"a07eca9635a4dba6c1d854c5576a0eca5e69422a25ed5a53e88789c8eaef11e0": onPod(kwokInitCompleted),
	"f6fe397d2aafcfc0c8fd7595b9fe95d770c36a816fbf540835112e7d08970bd9": onPod(kwokReady),
	"a7dc03cef8bc7e9770c6c622f51e4062771e0b68f376a70379deac3a85465647": onPod(kwokComplete(true)),
}

// errRender is for a pod that is left to the template. Nothing has changed then.
var errRender = errors.New("the template is to be rendered")

func kwokPatchOf(template string) nativePatch {
	sum := sha256.Sum256([]byte(template))
	return kwokPatches[hex.EncodeToString(sum[:])]
}

// kwokFastReady is pod/fast/pod-ready.
func kwokFastReady(p *corev1.Pod, m moment) error {
	status := &p.Status
	// Addresses merge by IP with those that are there.
	if !kwokKnows(p) || p.Spec.NodeName == "" || len(status.HostIPs)+len(status.PodIPs) > 0 {
		return errRender
	}
	nodeIPs, err := m.facts.NodeIPs(p.Spec.NodeName)
	if err != nil {
		return err
	}
	podIPs, err := m.podIPs(p.Spec.NodeName, p.Spec.HostNetwork, string(p.UID), p.Name, p.Namespace)
	if err != nil {
		return err
	}
	now := seconds(m.now)
	status.Conditions = mergeConditions(status.Conditions, gatesOpen(p, []kwokCondition{
		{kind: corev1.PodInitialized, status: corev1.ConditionTrue}, {kind: corev1.PodReady, status: corev1.ConditionTrue},
		{kind: corev1.ContainersReady, status: corev1.ConditionTrue},
	}), now)
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	ended := kwokEnded(now)
	status.ContainerStatuses = kwokStatuses(p.Spec.Containers, corev1.ContainerStatus{Ready: true, State: running})
	status.InitContainerStatuses = kwokStatuses(p.Spec.InitContainers, corev1.ContainerStatus{Ready: true, State: ended})
	for i := range p.Spec.InitContainers {
		if policy := p.Spec.InitContainers[i].RestartPolicy; policy != nil && *policy == corev1.ContainerRestartPolicyAlways {
			status.InitContainerStatuses[i].Started, status.InitContainerStatuses[i].State = ptr.To(true), running
		}
	}
	setIPs(status, nodeIPs, podIPs)
	status.Phase, status.StartTime = corev1.PodRunning, &now
	return nil
}

// kwokCreate is pod/general/pod-create.
func kwokCreate(p *corev1.Pod, m moment) error {
	if !kwokKnows(p) || p.Spec.NodeName == "" {
		return errRender
	}
	hostIP, err := firstOf(m.facts.NodeIPs(p.Spec.NodeName))
	if err != nil {
		return err
	}
	podIP, err := firstOf(m.podIPs(p.Spec.NodeName, p.Spec.HostNetwork, string(p.UID), p.Name, p.Namespace))
	if err != nil {
		return err
	}
	now, status := seconds(m.now), &p.Status
	unready := kwokCondition{status: corev1.ConditionFalse, reason: "ContainersNotReady", message: "containers with unready status: " + kwokNames(p.Spec.Containers), keeps: keepNothing}
	ready, inits, waits := unready, kwokCondition{kind: corev1.PodInitialized, status: corev1.ConditionTrue, keeps: keepWords}, "ContainerCreating"
	ready.kind, unready.kind = corev1.PodReady, corev1.ContainersReady
	if len(p.Spec.InitContainers) > 0 {
		inits.status, inits.reason, inits.keeps = corev1.ConditionFalse, "ContainersNotInitialized", keepNothing
		inits.message = "containers with incomplete status: " + kwokNames(p.Spec.InitContainers)
		waits = "PodInitializing"
	}
	status.Conditions = mergeConditions(status.Conditions, gatesOpen(p, []kwokCondition{inits, ready, unready}), now)
	waiting := corev1.ContainerStatus{Started: ptr.To(false), State: kwokWaiting(waits)}
	if len(p.Spec.InitContainers) > 0 {
		status.InitContainerStatuses = kwokStatuses(p.Spec.InitContainers, waiting)
	}
	status.ContainerStatuses = kwokStatuses(p.Spec.Containers, waiting)
	status.HostIP, status.PodIP, status.Phase = hostIP, podIP, corev1.PodPending
	return nil
}

// kwokInitRunning is pod/general/pod-init-container-running.
func kwokInitRunning(p *corev1.Pod, m moment) error {
	if !kwokKnows(p) || len(p.Status.InitContainerStatuses) < len(p.Spec.InitContainers) {
		return errRender
	}
	p.Status.InitContainerStatuses = kwokStatuses(p.Spec.InitContainers, corev1.ContainerStatus{
		Ready: true, Started: ptr.To(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: seconds(m.now)}},
	})
	return nil
}

// kwokInitCompleted is pod/general/pod-init-container-completed.
func kwokInitCompleted(p *corev1.Pod, m moment) error {
	if !kwokKnows(p) || len(p.Status.InitContainerStatuses) < len(p.Spec.InitContainers) {
		return errRender
	}
	now, status := seconds(m.now), &p.Status
	status.Conditions = mergeConditions(status.Conditions, []kwokCondition{{kind: corev1.PodInitialized, status: corev1.ConditionTrue, keeps: keepMessage}}, now)
	status.InitContainerStatuses = kwokStatuses(p.Spec.InitContainers, corev1.ContainerStatus{Ready: true, Started: ptr.To(false), State: kwokEnded(now)})
	status.ContainerStatuses = kwokStatuses(p.Spec.Containers, corev1.ContainerStatus{Started: ptr.To(false), State: kwokWaiting("ContainerCreating")})
	return nil
}

// kwokReady is pod/general/pod-ready.
func kwokReady(p *corev1.Pod, m moment) error {
	if !kwokKnows(p) || len(p.Status.ContainerStatuses) < len(p.Spec.Containers) {
		return errRender
	}
	now, status := seconds(m.now), &p.Status
	status.Conditions = mergeConditions(status.Conditions, []kwokCondition{
		{kind: corev1.PodReady, status: corev1.ConditionTrue, keeps: keepNothing}, {kind: corev1.ContainersReady, status: corev1.ConditionTrue, keeps: keepNothing},
	}, now)
	status.ContainerStatuses = kwokStatuses(p.Spec.Containers, corev1.ContainerStatus{
		Ready: true, Started: ptr.To(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
	})
	status.Phase, status.StartTime = corev1.PodRunning, &now
	return nil
}

// kwokComplete is pod-complete, of pod/general with containers that stay ready and of
// pod/fast with ones that do not.
func kwokComplete(ready bool) func(p *corev1.Pod, m moment) error {
	return func(p *corev1.Pod, m moment) error {
		if !kwokKnows(p) || len(p.Status.ContainerStatuses) < len(p.Spec.Containers) {
			return errRender
		}
		p.Status.ContainerStatuses = kwokStatuses(p.Spec.Containers, corev1.ContainerStatus{Ready: ready, Started: ptr.To(false), State: kwokEnded(seconds(m.now))})
		p.Status.Phase = corev1.PodSucceeded
		return nil
	}
}

// kwokKnows tells whether all texts that are written into YAML come out of it as they are.
func kwokKnows(p *corev1.Pod) bool {
	if len(p.Spec.Containers) == 0 {
		return false
	}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if list[i].Name == "" || list[i].Image == "" || !yamlSafe(list[i].Name) || !yamlSafe(list[i].Image) {
				return false
			}
		}
	}
	for i := range p.Spec.ReadinessGates {
		if t := string(p.Spec.ReadinessGates[i].ConditionType); t == "" || !yamlSafe(t) {
			return false
		}
	}
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == "" {
			return false // nothing merges with it
		}
	}
	return true
}

// yamlSafe tells whether neither JSON nor YAML writes a text in another way between quotes.
func yamlSafe(text string) bool {
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '\'' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

// What a condition keeps that a strategic merge finds: of the fields that the template does not
// name, all; and where it names them as null or empty, nothing.
type keeps int

const (
	keepAll     keeps = iota // lastProbeTime, reason and message
	keepWords                // reason and message
	keepMessage              // the message
	keepNothing
)

// kwokCondition is a condition that a template names.
type kwokCondition struct {
	kind            corev1.PodConditionType
	status          corev1.ConditionStatus
	reason, message string
	keeps           keeps
}

// on is the condition after the merge.
func (c *kwokCondition) on(was corev1.PodCondition, now metav1.Time) corev1.PodCondition {
	is := corev1.PodCondition{
		Type: c.kind, Status: c.status, Reason: c.reason, Message: c.message,
		LastTransitionTime: now, ObservedGeneration: was.ObservedGeneration,
	}
	if c.keeps == keepAll {
		is.LastProbeTime = was.LastProbeTime
	}
	if c.keeps <= keepWords {
		is.Reason = was.Reason
	}
	if c.keeps <= keepMessage {
		is.Message = was.Message
	}
	return is
}

// mergeConditions is the strategic merge of a pod's conditions with those that a template
// names. Both keep their order; one that is not named comes before a named one only if it did.
func mergeConditions(before []corev1.PodCondition, changes []kwokCondition, now metav1.Time) []corev1.PodCondition {
	place := func(in []corev1.PodCondition, kind corev1.PodConditionType) int {
		for i := range in {
			if in[i].Type == kind {
				return i
			}
		}
		return -1
	}
	named := make([]corev1.PodCondition, 0, len(changes))
	for i := range changes {
		c := &changes[i]
		if at := place(named, c.kind); at >= 0 {
			named[at] = c.on(named[at], now)
			continue
		}
		var was corev1.PodCondition
		if at := place(before, c.kind); at >= 0 {
			was = before[at]
		}
		named = append(named, c.on(was, now))
	}
	all := make([]corev1.PodCondition, 0, len(before)+len(named))
	next := 0
	for i := range before {
		if place(named, before[i].Type) >= 0 {
			continue
		}
		for next < len(named) {
			if at := place(before, named[next].Type); at > i {
				break
			}
			all, next = append(all, named[next]), next+1
		}
		all = append(all, before[i])
	}
	return append(all, named[next:]...)
}

// gatesOpen are conditions that say that all readiness gates are open, as these stages do.
func gatesOpen(p *corev1.Pod, changes []kwokCondition) []kwokCondition {
	for i := range p.Spec.ReadinessGates {
		changes = append(changes, kwokCondition{kind: p.Spec.ReadinessGates[i].ConditionType, status: corev1.ConditionTrue})
	}
	return changes
}

// kwokStatuses are containers that are all alike; the list takes the place of the one before.
func kwokStatuses(containers []corev1.Container, like corev1.ContainerStatus) []corev1.ContainerStatus {
	if len(containers) == 0 {
		return nil
	}
	all := make([]corev1.ContainerStatus, len(containers))
	for i := range containers {
		all[i] = like
		all[i].Name, all[i].Image = containers[i].Name, containers[i].Image
	}
	return all
}

func kwokEnded(now metav1.Time) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reasonCompleted, StartedAt: now, FinishedAt: now}}
}

func kwokWaiting(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
}

// kwokNames lists containers as the templates do.
func kwokNames(containers []corev1.Container) string {
	out := "["
	for i := range containers {
		out += " " + containers[i].Name + " "
	}
	return out + "]"
}
