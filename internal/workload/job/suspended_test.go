package job

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestSuspendedWhenDone checks that a Job that has enough successes while a pod still runs ends when it is
// suspended, because a suspension deletes the pod. It does not become Suspended first.
func TestSuspendedWhenDone(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "work", UID: "job"},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To[int32](2), Suspend: ptr.To(true),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.ControllerUidLabel: "job"}},
		},
		Status: batchv1.JobStatus{Active: 1, Succeeded: 1, StartTime: ptr.To(metav1.NewTime(now.Add(-time.Minute)))},
	}
	runs := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "work-2", UID: "pod", Finalizers: []string{batchv1.JobTrackingFinalizer}, Labels: j.Spec.Selector.MatchLabels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	d := Plan(now, State{Job: j, Pods: []*corev1.Pod{runs}, Limits: DefaultLimits})
	if d.Status == nil || len(d.Status.Conditions) != 1 || d.Status.Conditions[0].Type != batchv1.JobSuccessCriteriaMet {
		t.Fatalf("conditions %+v, want only SuccessCriteriaMet", d.Status)
	}
	j.Status = *d.Status
	if d = Plan(now, State{Job: j, Pods: []*corev1.Pod{runs}, Limits: DefaultLimits}); d.Tally.Removed != 1 {
		t.Errorf("the plan that observes the condition has actions %v", d.Actions)
	}
}
