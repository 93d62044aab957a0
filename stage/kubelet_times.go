package stage

import (
	"strconv"
	"strings"
	"time"

	"github.com/itchyny/gojq"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// When something of a pod is due. Each time exists twice: as the jq program that
// stands in the general stages and as Go code that stands in for exactly that
// program; a test compares the two.

const (
	jqSeconds = `def seconds: ([.h, .m, .s] | map(. // "0" | tonumber)) as [$h, $m, $s] | $h * 3600 + $m * 60 + $s; `

	jqWholeSeconds = `capture("^(?:(?<h>[0-9]{1,5})h)?(?:(?<m>[0-9]{1,5})m)?(?:(?<s>[0-9]{1,9})s)?$") | seconds`

	// exitAt: when the first of the running containers ends that have a time to
	// run, whole seconds such as 1h30m or 90s.
	exitAt = jqSeconds + `(.metadata.annotations // {}) as $a | [((.status.containerStatuses // [])[] | {state: .state, after: ($a["rehearse-k8s.github.io/run-for." + .name] // $a["rehearse-k8s.github.io/run-for"])}), ((.status.initContainerStatuses // [])[] | {state: .state, after: $a["rehearse-k8s.github.io/run-for." + .name]}) | select(.after != null and .state.running.startedAt != null) | (.state.running.startedAt | fromdate) + (.after | ` + jqWholeSeconds + `)] | min // empty | todate`

	// restartAt: when the first container that backs off is started again.
	restartAt = jqSeconds + `[(.status.initContainerStatuses // [])[], (.status.containerStatuses // [])[] | select(.state.waiting.reason == "CrashLoopBackOff" and .lastState.terminated.finishedAt != null) | (.lastState.terminated.finishedAt | fromdate) + ((.state.waiting.message // "" | capture("^back-off (?:(?<m>[0-9]{1,5})m)?(?<s>[0-9]{1,9})s ") | seconds) // 10)] | min // empty | todate`

	// deadlineAt: when the pod has been active for too long.
	deadlineAt = `select(.spec.activeDeadlineSeconds != null and .status.startTime != null) | (.status.startTime | fromdate) + .spec.activeDeadlineSeconds | todate`

	// waitsFor: what containers wait for, init containers first.
	waitsFor = `(.status.initContainerStatuses // [])[], (.status.containerStatuses // [])[] | .state.waiting.reason`

	// downUntil and pressureUntil: when what a node's label brought about is over.
	downUntil     = jqSeconds + `(.metadata.annotations["node-not-ready.stage.kwok.x-k8s.io/duration"] | ` + jqWholeSeconds + `) as $for | .status.conditions[] | select(.type == "Ready" and .lastTransitionTime != null) | (.lastTransitionTime | fromdate) + $for | todate`
	pressureUntil = jqSeconds + `(.metadata.annotations["node-pressure.stage.kwok.x-k8s.io/duration"] | ` + jqWholeSeconds + `) as $for | .status.conditions[] | select(.message == "the label node-pressure.stage.kwok.x-k8s.io is set" and .lastTransitionTime != null) | (.lastTransitionTime | fromdate) + $for | todate`

	// unobserved: the spec changed since the status was written.
	unobserved = `select(.metadata.generation != .status.observedGeneration) | .metadata.uid`

	// news: that, or an update in place asks for containers that begin anew and are still those that it has found
	// (restartAsked).
	news = `(.metadata.annotations["apps.kruise.io/inplace-update-state"] // "null" | fromjson? // null | if type == "object" then . else {} end) as $u | select(.metadata.generation != .status.observedGeneration or $u.updateEnvFromMetadata == true and any(.status.containerStatuses[]?, .status.initContainerStatuses[]?; .state.running != null and .containerID != null and .containerID == ($u.lastContainerStatuses[.name].containerID? // null))) | .metadata.uid`
)

func init() {
	add := func(program string, n *native, to map[string]*native) {
		parsed, err := gojq.Parse(program)
		if err != nil {
			panic(err) // a mistake in the constants above
		}
		to[parsed.String()] = n
	}
	onPodTime := func(f func(p *corev1.Pod) (time.Time, bool)) *native {
		return &native{when: func(o metav1.Object) (time.Time, bool) { return f(o.(*corev1.Pod)) }}
	}
	onNodeTime := func(label string, which func(c *corev1.NodeCondition) bool) *native {
		key := label + ".stage.kwok.x-k8s.io/duration"
		return &native{when: func(o metav1.Object) (time.Time, bool) { return overTime(o.(*corev1.Node), key, which) }}
	}
	add(exitAt, onPodTime(firstExit), podNatives)
	add(restartAt, onPodTime(firstRestart), podNatives)
	add(deadlineAt, onPodTime(deadlineOf), podNatives)
	add(downUntil, onNodeTime("node-not-ready", func(c *corev1.NodeCondition) bool { return c.Type == corev1.NodeReady }), nodeNatives)
	add(pressureUntil, onNodeTime("node-pressure", func(c *corev1.NodeCondition) bool {
		return c.Message == "the label node-pressure.stage.kwok.x-k8s.io is set"
	}), nodeNatives)
	add(unobserved, pod(func(p *corev1.Pod) string {
		if p.Generation == p.Status.ObservedGeneration {
			return ""
		}
		return string(p.UID)
	}), podNatives)
	add(news, pod(func(p *corev1.Pod) string {
		if p.Generation == p.Status.ObservedGeneration {
			if _, asked := restartAsked(p); !asked {
				return ""
			}
		}
		return string(p.UID)
	}), podNatives)
	add(waitsFor, &native{at: func(o metav1.Object, i int) (string, result) {
		p := o.(*corev1.Pod)
		list := p.Status.InitContainerStatuses
		if i >= len(list) {
			i, list = i-len(list), p.Status.ContainerStatuses
		}
		switch {
		case i >= len(list):
			return "", end
		case list[i].State.Waiting == nil:
			return "", resultNil
		}
		return text(list[i].State.Waiting.Reason)
	}}, podNatives)
}

// earlier keeps the first of two times.
func earlier(first time.Time, found bool, at time.Time, ok bool) (time.Time, bool) {
	if !ok || found && !at.Before(first) {
		return first, found
	}
	return at, true
}

func firstExit(p *corev1.Pod) (first time.Time, found bool) {
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
	text, ok := ownAnnotation(annotations, annotationRunFor+".", s.Name)
	if !ok && !init {
		text, ok = annotations[annotationRunFor]
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

func firstRestart(p *corev1.Pod) (first time.Time, found bool) {
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

func deadlineOf(p *corev1.Pod) (time.Time, bool) {
	if p.Spec.ActiveDeadlineSeconds == nil || p.Status.StartTime == nil || p.Status.StartTime.IsZero() {
		return time.Time{}, false
	}
	return p.Status.StartTime.Truncate(time.Second).Add(time.Duration(*p.Spec.ActiveDeadlineSeconds) * time.Second), true
}

// overTime is the end of a condition that lasts as long as an annotation says.
func overTime(n *corev1.Node, key string, which func(c *corev1.NodeCondition) bool) (time.Time, bool) {
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
