package job

import (
	"cmp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// byRemovalOrder orders active pods, the first to be removed at the beginning: pods whose removal has begun,
// so that no other pod is removed in their place; then pods that are not on a node, pending, not ready, ready
// for a shorter time, restarted more often, younger. It is the order of upstream's ActivePods
// (pkg/controller/controller_utils.go), made total by names.
func byRemovalOrder(a, b *corev1.Pod) int {
	if markedA, markedB := markedForRemoval(a), markedForRemoval(b); markedA != markedB {
		if markedA {
			return -1
		}
		return 1
	}
	if c := cmp.Compare(onNode(a), onNode(b)); c != 0 {
		return c
	}
	if c := cmp.Compare(phaseRank(a), phaseRank(b)); c != 0 {
		return c
	}
	readyA, readyB := isReady(a), isReady(b)
	if readyA != readyB {
		if readyB {
			return -1
		}
		return 1
	}
	if readyA {
		// A pod that became ready later comes first; one whose time is unknown comes first of
		// all.
		if c := byAge(readySince(a), readySince(b)); c != 0 {
			return c
		}
	}
	if c := cmp.Compare(mostRestarts(b), mostRestarts(a)); c != 0 {
		return c
	}
	if c := byAge(a.CreationTimestamp.Time, b.CreationTimestamp.Time); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// byAge orders the later time first; an unknown time precedes all others.
func byAge(a, b time.Time) int {
	switch {
	case a.Equal(b):
		return 0
	case a.IsZero():
		return -1
	case b.IsZero():
		return 1
	}
	return b.Compare(a)
}

func onNode(p *corev1.Pod) int {
	if p.Spec.NodeName == "" {
		return 0
	}
	return 1
}

func phaseRank(p *corev1.Pod) int {
	switch p.Status.Phase {
	case corev1.PodRunning:
		return 2
	case corev1.PodUnknown:
		return 1
	}
	return 0
}

func readySince(p *corev1.Pod) time.Time {
	if c := podCondition(p, corev1.PodReady); c != nil {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

func mostRestarts(p *corev1.Pod) (most int32) {
	for i := range p.Status.ContainerStatuses {
		most = max(most, p.Status.ContainerStatuses[i].RestartCount)
	}
	return most
}
