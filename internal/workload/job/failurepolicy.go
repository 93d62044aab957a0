package job

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// handled is the result of the pod failure policy for a failed pod.
type handled struct {
	// action is that of the first rule that matches; "" if no rule matches, in which case the failure counts.
	action batchv1.PodFailurePolicyAction
	// failJob is the message of a FailJob rule, "" for other actions.
	failJob string
}

// counts reports whether the failure counts towards the limits.
func (h handled) counts() bool { return h.action != batchv1.PodFailurePolicyActionIgnore }

// handle applies the policy to a failed pod: the first rule that matches decides. The messages are the same as
// upstream's, because scripts read them.
func handle(policy *batchv1.PodFailurePolicy, p *corev1.Pod) handled {
	if policy == nil {
		return handled{}
	}
	for i := range policy.Rules {
		rule := &policy.Rules[i]
		if !isSupported(rule.Action) {
			continue
		}
		message := ""
		switch {
		case rule.OnExitCodes != nil:
			c := exitMatch(p, rule.OnExitCodes)
			if c == nil {
				continue
			}
			if rule.Action == batchv1.PodFailurePolicyActionFailJob {
				message = fmt.Sprintf("Container %s for pod %s/%s failed with exit code %d matching %s rule at index %d",
					c.Name, p.Namespace, p.Name, c.State.Terminated.ExitCode, rule.Action, i)
			}
		default:
			c := conditionMatch(p, rule.OnPodConditions)
			if c == nil {
				continue
			}
			if rule.Action == batchv1.PodFailurePolicyActionFailJob {
				message = fmt.Sprintf("Pod %s/%s has condition %s matching %s rule at index %d", p.Namespace, p.Name, c.Type, rule.Action, i)
			}
		}
		return handled{action: rule.Action, failJob: message}
	}
	return handled{}
}

// isSupported reports whether this version supports an action; rules with other actions match nothing.
func isSupported(action batchv1.PodFailurePolicyAction) bool {
	switch action {
	case batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionFailIndex, batchv1.PodFailurePolicyActionIgnore, batchv1.PodFailurePolicyActionCount:
		return true
	}
	return false
}

// exitMatch returns the container whose exit code matches; containers precede init containers. An exit code of
// 0 never matches.
func exitMatch(p *corev1.Pod, rule *batchv1.PodFailurePolicyOnExitCodesRequirement) *corev1.ContainerStatus {
	for _, all := range [][]corev1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses} {
		for i := range all {
			c := &all[i]
			if c.State.Terminated == nil || c.State.Terminated.ExitCode == 0 || rule.ContainerName != nil && *rule.ContainerName != c.Name {
				continue
			}
			in := slices.Contains(rule.Values, c.State.Terminated.ExitCode)
			if in && rule.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn || !in && rule.Operator == batchv1.PodFailurePolicyOnExitCodesOpNotIn {
				return c
			}
		}
	}
	return nil
}

func conditionMatch(p *corev1.Pod, patterns []batchv1.PodFailurePolicyOnPodConditionsPattern) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		for k := range patterns {
			if c.Type == patterns[k].Type && c.Status == patterns[k].Status {
				return c
			}
		}
	}
	return nil
}
