package stage

import (
	"time"

	"github.com/rehearse-k8s/rehearse/internal/stage/kubelet"
	"github.com/rehearse-k8s/rehearse/stage/expr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The jq programs of the built-in stages that are not plain paths. They run for every event of a pod, so Go
// functions replace exactly these programs; TestNativeAnswersAsJQ compares the two.

const (
	jqSeconds = `def seconds: ([.h, .m, .s] | map(. // "0" | tonumber)) as [$h, $m, $s] | $h * 3600 + $m * 60 + $s; `

	jqWholeSeconds = `capture("^(?:(?<h>[0-9]{1,5})h)?(?:(?<m>[0-9]{1,5})m)?(?:(?<s>[0-9]{1,9})s)?$") | seconds`

	// exitAt is the time at which the first running container with a run time terminates; run times are whole
	// seconds such as 1h30m or 90s.
	exitAt = jqSeconds + `(.metadata.annotations // {}) as $a | [((.status.containerStatuses // [])[] | {state: .state, after: ($a["rehearse-k8s.github.io/run-for." + .name] // $a["rehearse-k8s.github.io/run-for"])}), ((.status.initContainerStatuses // [])[] | {state: .state, after: $a["rehearse-k8s.github.io/run-for." + .name]}) | select(.after != null and .state.running.startedAt != null) | (.state.running.startedAt | fromdate) + (.after | ` + jqWholeSeconds + `)] | min // empty | todate`

	// restartAt is the time at which the first container in back-off restarts.
	restartAt = jqSeconds + `[(.status.initContainerStatuses // [])[], (.status.containerStatuses // [])[] | select(.state.waiting.reason == "CrashLoopBackOff" and .lastState.terminated.finishedAt != null) | (.lastState.terminated.finishedAt | fromdate) + ((.state.waiting.message // "" | capture("^back-off (?:(?<m>[0-9]{1,5})m)?(?<s>[0-9]{1,9})s ") | seconds) // 10)] | min // empty | todate`

	// deadlineAt is the time at which the pod exceeds its active deadline.
	deadlineAt = `select(.spec.activeDeadlineSeconds != null and .status.startTime != null) | (.status.startTime | fromdate) + .spec.activeDeadlineSeconds | todate`

	// waitsFor returns the reasons for which containers wait, init containers first.
	waitsFor = `(.status.initContainerStatuses // [])[], (.status.containerStatuses // [])[] | .state.waiting.reason`

	// downUntil and pressureUntil are the times at which the effect of a node's label ends.
	downUntil     = jqSeconds + `(.metadata.annotations["node-not-ready.stage.kwok.x-k8s.io/duration"] | ` + jqWholeSeconds + `) as $for | .status.conditions[] | select(.type == "Ready" and .lastTransitionTime != null) | (.lastTransitionTime | fromdate) + $for | todate`
	pressureUntil = jqSeconds + `(.metadata.annotations["node-pressure.stage.kwok.x-k8s.io/duration"] | ` + jqWholeSeconds + `) as $for | .status.conditions[] | select(.message == "the label node-pressure.stage.kwok.x-k8s.io is set" and .lastTransitionTime != null) | (.lastTransitionTime | fromdate) + $for | todate`

	// unobserved reports whether the spec changed since the status was written.
	unobserved = `select(.metadata.generation != .status.observedGeneration) | .metadata.uid`

	// news: unobserved, or an update in place requires the restart of containers that have not restarted yet
	// (kubelet.RestartRequested).
	news = `(.metadata.annotations["apps.kruise.io/inplace-update-state"] // "null" | fromjson? // null | if type == "object" then . else {} end) as $u | select(.metadata.generation != .status.observedGeneration or $u.updateEnvFromMetadata == true and any(.status.containerStatuses[]?, .status.initContainerStatuses[]?; .state.running != null and .containerID != null and .containerID == ($u.lastContainerStatuses[.name].containerID? // null))) | .metadata.uid`
)

// openGates lists the readiness gates of a pod that are not True.
const openGates = `(.status.conditions // []) as $c | .spec.readinessGates[] | .conditionType as $t | select(any($c[]; .type == $t and .status == "True") | not) | $t`

// keptNotReady matches the nodes that node-chaos keeps NotReady.
const keptNotReady = `select(.status.phase == "Running") | .metadata.labels["node-not-ready.stage.kwok.x-k8s.io"]`

// newDevices matches the nodes whose devices node-devices has not published yet.
const newDevices = `.metadata.annotations["rehearse-k8s.github.io/devices"] as $d | select($d != null and $d != .metadata.annotations["rehearse-k8s.github.io/devices-published"]) | .metadata.uid`

func init() {
	onPodTime := func(program string, f func(p *corev1.Pod) (time.Time, bool)) {
		expr.RegisterTime(expr.Pod, program, func(o metav1.Object) (time.Time, bool) { return f(o.(*corev1.Pod)) })
	}
	onNodeTime := func(program, label string, which func(c *corev1.NodeCondition) bool) {
		key := label + ".stage.kwok.x-k8s.io/duration"
		expr.RegisterTime(expr.Node, program, func(o metav1.Object) (time.Time, bool) { return kubelet.ConditionUntil(o.(*corev1.Node), key, which) })
	}
	onPodUID := func(program string, which func(p *corev1.Pod) bool) {
		expr.RegisterTexts(expr.Pod, program, func(o metav1.Object, i int) (string, bool) {
			if p := o.(*corev1.Pod); i == 0 && which(p) {
				return string(p.UID), true
			}
			return "", false
		})
	}
	onPodTime(exitAt, kubelet.FirstExit)
	onPodTime(restartAt, kubelet.FirstRestart)
	onPodTime(deadlineAt, kubelet.Deadline)
	onNodeTime(downUntil, "node-not-ready", func(c *corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	onNodeTime(pressureUntil, "node-pressure", func(c *corev1.NodeCondition) bool {
		return c.Message == "the label node-pressure.stage.kwok.x-k8s.io is set"
	})
	onPodUID(unobserved, func(p *corev1.Pod) bool { return p.Generation != p.Status.ObservedGeneration })
	onPodUID(news, kubelet.SpecChanged)
	expr.RegisterTexts(expr.Pod, waitsFor, func(o metav1.Object, i int) (string, bool) {
		p := o.(*corev1.Pod)
		list := p.Status.InitContainerStatuses
		if i >= len(list) {
			i, list = i-len(list), p.Status.ContainerStatuses
		}
		switch {
		case i >= len(list):
			return "", false
		case list[i].State.Waiting == nil:
			return "", true
		}
		return list[i].State.Waiting.Reason, true
	})
	expr.RegisterTexts(expr.Pod, openGates, func(o metav1.Object, i int) (string, bool) {
		p := o.(*corev1.Pod)
		if i >= len(p.Spec.ReadinessGates) {
			return "", false
		}
		gate := p.Spec.ReadinessGates[i].ConditionType
		if kubelet.IsConditionTrue(p.Status.Conditions, gate) {
			return "", true
		}
		return string(gate), true
	})
	expr.RegisterTexts(expr.Node, keptNotReady, func(o metav1.Object, i int) (string, bool) {
		n := o.(*corev1.Node)
		value, labelled := n.Labels["node-not-ready.stage.kwok.x-k8s.io"]
		return value, i == 0 && labelled && n.Status.Phase == corev1.NodeRunning
	})
	expr.RegisterTexts(expr.Node, newDevices, func(o metav1.Object, i int) (string, bool) {
		n := o.(*corev1.Node)
		devices, asked := n.Annotations["rehearse-k8s.github.io/devices"]
		published, done := n.Annotations["rehearse-k8s.github.io/devices-published"]
		return string(n.UID), i == 0 && asked && (!done || devices != published)
	})
}
