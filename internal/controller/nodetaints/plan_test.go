package nodetaints

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = metav1.NewTime(time.Unix(1_000_000_000, 0))

func taint(key string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Effect: effect}
}

func text(taints []corev1.Taint) (out []string) {
	for _, t := range taints {
		out = append(out, t.ToString())
	}
	return out
}

func TestPlan(t *testing.T) {
	const notReady, unreachable = corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable
	const noSchedule, noExecute, prefer = corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule
	for name, tc := range map[string]struct {
		ready corev1.ConditionStatus // "": no condition
		has   []corev1.Taint
		want  []string
		same  bool
	}{
		"a new node without a condition keeps its taint": {"", []corev1.Taint{taint(notReady, noSchedule)}, []string{notReady + ":NoSchedule"}, true},
		"a ready node loses it":                          {"True", []corev1.Taint{taint(notReady, noSchedule)}, nil, false},
		"a ready node without taints":                    {"True", nil, nil, true},
		"a ready node loses all of them": {"True", []corev1.Taint{taint(notReady, noSchedule), taint("mine", noExecute), taint(unreachable, noExecute), taint(unreachable, noSchedule)},
			[]string{"mine:NoExecute"}, false},
		"a node that is not ready": {"False", []corev1.Taint{taint("mine", noSchedule), taint(notReady, noSchedule)},
			[]string{"mine:NoSchedule", notReady + ":NoSchedule", notReady + ":NoExecute"}, false},
		"a node that is not ready has both": {"False", []corev1.Taint{taint(notReady, noExecute), taint(notReady, noSchedule)},
			[]string{notReady + ":NoExecute", notReady + ":NoSchedule"}, true},
		"an unreachable node": {"Unknown", []corev1.Taint{taint(notReady, noSchedule), taint(notReady, noExecute)},
			[]string{unreachable + ":NoSchedule", unreachable + ":NoExecute"}, false},
		"a taint with another effect stays":       {"True", []corev1.Taint{taint(notReady, prefer)}, []string{notReady + ":PreferNoSchedule"}, true},
		"a status that is not known has no taint": {"Odd", []corev1.Taint{taint(notReady, noSchedule)}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{Spec: corev1.NodeSpec{Taints: slices.Clone(tc.has)}}
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: "True"}}
			if tc.ready != "" {
				node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady, Status: tc.ready})
			}
			got, change := Plan(now, node)
			if !slices.Equal(text(got), tc.want) || change == tc.same {
				t.Errorf("%q, change %t, want %q, %t", text(got), change, tc.want, !tc.same)
			}
			for _, g := range got {
				if added := g.Effect == noExecute && !slices.Contains(text(tc.has), g.ToString()); added != (g.TimeAdded != nil) {
					t.Errorf("%s was added at %v", g.ToString(), g.TimeAdded)
				}
			}
			if !slices.Equal(text(node.Spec.Taints), text(tc.has)) {
				t.Error("Plan changes the node")
			}
			node.Spec.Taints = got
			if again, change := Plan(now, node); change || !slices.Equal(text(again), text(got)) {
				t.Errorf("a second Plan changes the taints to %q", text(again))
			}
		})
	}
}
