package store

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestStampStatus(t *testing.T) {
	machine := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	run := time.Date(2000, 1, 1, 0, 0, 30, 0, time.UTC)
	old, future := metav1.NewTime(run.Add(-time.Hour)), metav1.NewTime(machine.AddDate(1, 0, 0))

	pod := &corev1.Pod{Status: corev1.PodStatus{
		StartTime:  &old,
		Conditions: []corev1.PodCondition{{LastTransitionTime: metav1.NewTime(machine.Truncate(time.Second)), LastProbeTime: future}},
	}}
	stampStatus(pod, machine, run)
	if got := pod.Status.Conditions[0]; !got.LastTransitionTime.Time.Equal(run) || !got.LastProbeTime.Equal(&future) || !pod.Status.StartTime.Equal(&old) {
		t.Errorf("pod status is %+v; want the transition at %s and the rest as it was", pod.Status, run)
	}

	pdb := &policyv1.PodDisruptionBudget{Status: policyv1.PodDisruptionBudgetStatus{
		DisruptedPods: map[string]metav1.Time{"a": metav1.NewTime(machine), "b": old},
	}}
	stampStatus(pdb, machine, run)
	if a, b := pdb.Status.DisruptedPods["a"], pdb.Status.DisruptedPods["b"]; !a.Time.Equal(run) || !b.Equal(&old) {
		t.Errorf("disrupted pods are %v; want a at %s and b at %s", pdb.Status.DisruptedPods, run, old)
	}

	stampStatus(&corev1.ConfigMap{}, machine, run) // has no status
}
