package stage_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rehearse-k8s/rehearse/stage"
)

func TestLastChange(t *testing.T) {
	begun := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(s int) metav1.Time { return metav1.NewTime(begun.Add(time.Duration(s) * time.Second)) }
	grace := int64(30)
	deletion := at(40)
	for name, c := range map[string]struct {
		object stage.Object
		want   int
	}{
		"created":    {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(1)}}, 1},
		"deletion":   {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(1), DeletionTimestamp: &deletion, DeletionGracePeriodSeconds: &grace}}, 10},
		"condition":  {&corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{LastTransitionTime: at(3)}, {LastTransitionTime: at(2)}}}}, 3},
		"running":    {&corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(4)}}}}}}, 4},
		"terminated": {&corev1.Pod{Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at(5)}}}}}}, 5},
		"heartbeat":  {&corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{LastHeartbeatTime: at(6)}}}}, 6},
		"other": {&unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
			map[string]any{"lastTransitionTime": at(7).Format(time.RFC3339), "lastHeartbeatTime": "soon"}, "no condition",
		}}}}, 7},
	} {
		if got := stage.LastChange(c.object); !got.Equal(at(c.want).Time) {
			t.Errorf("%s: %s", name, got)
		}
	}
}
