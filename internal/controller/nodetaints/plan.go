package nodetaints

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// keys are the taints that this package manages, by the status of the Ready condition.
var keys = map[corev1.ConditionStatus]string{
	corev1.ConditionFalse:   corev1.TaintNodeNotReady,
	corev1.ConditionUnknown: corev1.TaintNodeUnreachable,
}

// effects are the effects of each taint: new pods are not scheduled, and those that do not tolerate it are evicted.
var effects = []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute}

// Plan returns the taints that a node should have, and whether they differ from those that it has. A node without a
// Ready condition keeps its taints: nothing has reported on it yet. Other taints keep their order.
func Plan(now metav1.Time, node *corev1.Node) (taints []corev1.Taint, change bool) {
	i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if i < 0 {
		return node.Spec.Taints, false
	}
	want := keys[node.Status.Conditions[i].Status]
	missing := slices.Clone(effects)
	if want == "" {
		missing = nil
	}
	for _, t := range node.Spec.Taints {
		switch {
		case !isManaged(t):
		case t.Key != want:
			change = true
			continue
		default:
			missing = slices.DeleteFunc(missing, func(e corev1.TaintEffect) bool { return e == t.Effect })
		}
		taints = append(taints, t)
	}
	for _, e := range missing {
		t := corev1.Taint{Key: want, Effect: e}
		if e == corev1.TaintEffectNoExecute {
			t.TimeAdded = &now // tolerations for a time begin here
		}
		taints, change = append(taints, t), true
	}
	return taints, change
}

// isManaged reports whether the node lifecycle controller adds and removes a taint.
func isManaged(t corev1.Taint) bool {
	return (t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable) && slices.Contains(effects, t.Effect)
}
