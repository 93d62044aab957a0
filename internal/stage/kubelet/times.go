package kubelet

import (
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// When something of a pod or a node is due. The jq programs of the general stages compute the same times; the
// engine calls these functions in place of exactly those programs, and a test compares the two.

// earlier keeps the first of two times.
func earlier(first time.Time, found bool, at time.Time, ok bool) (time.Time, bool) {
	if !ok || found && !at.Before(first) {
		return first, found
	}
	return at, true
}

func FirstExit(p *corev1.Pod) (first time.Time, found bool) {
	if len(p.Annotations) == 0 {
		return first, false
	}
	for i := range p.Status.ContainerStatuses {
		at, ok := exitTime(p.Annotations, &p.Status.ContainerStatuses[i], false)
		first, found = earlier(first, found, at, ok)
	}
	for i := range p.Status.InitContainerStatuses {
		at, ok := exitTime(p.Annotations, &p.Status.InitContainerStatuses[i], true)
		first, found = earlier(first, found, at, ok)
	}
	return first, found
}

// exitTime is when one running container ends.
func exitTime(annotations map[string]string, s *corev1.ContainerStatus, init bool) (time.Time, bool) {
	if s.State.Running == nil || s.State.Running.StartedAt.IsZero() {
		return time.Time{}, false
	}
	text, ok := ownAnnotation(annotations, AnnotationRunFor+".", s.Name)
	if !ok && !init {
		text, ok = annotations[AnnotationRunFor]
	}
	if !ok {
		return time.Time{}, false
	}
	d, ok := wholeSeconds(text)
	return s.State.Running.StartedAt.Truncate(time.Second).Add(d), ok
}

// ownAnnotation looks up prefix+name without making that text.
func ownAnnotation(annotations map[string]string, prefix, name string) (string, bool) {
	var buffer [128]byte
	key := append(append(buffer[:0], prefix...), name...)
	text, ok := annotations[string(key)]
	return text, ok
}

func FirstRestart(p *corev1.Pod) (first time.Time, found bool) {
	for _, list := range [...][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range list {
			at, ok := restartTime(&list[i])
			first, found = earlier(first, found, at, ok)
		}
	}
	return first, found
}

// restartTime is when one container that backs off starts again. How long it
// waits stands in its message, as a kubelet writes it.
func restartTime(s *corev1.ContainerStatus) (time.Time, bool) {
	last := s.LastTerminationState.Terminated
	if s.State.Waiting == nil || s.State.Waiting.Reason != reasonCrashLoop || last == nil || last.FinishedAt.IsZero() {
		return time.Time{}, false
	}
	wait := firstBackOff
	if text, ok := strings.CutPrefix(s.State.Waiting.Message, "back-off "); ok {
		if text, _, ok := strings.Cut(text, " "); ok && strings.HasSuffix(text, "s") && !strings.Contains(text, "h") {
			if d, ok := wholeSeconds(text); ok {
				wait = d
			}
		}
	}
	return last.FinishedAt.Truncate(time.Second).Add(wait), true
}

func Deadline(p *corev1.Pod) (time.Time, bool) {
	if p.Spec.ActiveDeadlineSeconds == nil || p.Status.StartTime == nil || p.Status.StartTime.IsZero() {
		return time.Time{}, false
	}
	return p.Status.StartTime.Truncate(time.Second).Add(time.Duration(*p.Spec.ActiveDeadlineSeconds) * time.Second), true
}

// ConditionUntil is the end of a condition that lasts as long as an annotation says.
func ConditionUntil(n *corev1.Node, key string, which func(c *corev1.NodeCondition) bool) (time.Time, bool) {
	text, ok := n.Annotations[key]
	if !ok {
		return time.Time{}, false
	}
	d, ok := wholeSeconds(text)
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; ok && which(c) && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Truncate(time.Second).Add(d), true
		}
	}
	return time.Time{}, false
}

// wholeSeconds reads 1h30m15s, each part of it optional, as the programs do.
func wholeSeconds(text string) (time.Duration, bool) {
	total := time.Duration(0)
	for _, unit := range [...]struct {
		letter byte
		digits int
		is     time.Duration
	}{{'h', 5, time.Hour}, {'m', 5, time.Minute}, {'s', 9, time.Second}} {
		n := 0
		for n < len(text) && text[n] >= '0' && text[n] <= '9' {
			n++
		}
		if n == 0 || n > unit.digits || n == len(text) || text[n] != unit.letter {
			continue
		}
		value, err := strconv.Atoi(text[:n])
		if err != nil {
			return 0, false
		}
		total += time.Duration(value) * unit.is
		text = text[n+1:]
	}
	return total, text == ""
}
