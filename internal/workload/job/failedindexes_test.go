package job

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestIndexesFailByThemselves checks that pods removed because their Job has failed count as failures of the
// Job but do not fail their indexes, and that a pod that failed by itself fails its index.
func TestIndexesFailByThemselves(t *testing.T) {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "work", UID: "job"},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To[int32](4), Completions: ptr.To[int32](4), CompletionMode: ptr.To(batchv1.IndexedCompletion),
			BackoffLimitPerIndex: ptr.To[int32](0), MaxFailedIndexes: ptr.To[int32](1),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.ControllerUidLabel: "job"}},
		},
		Status: batchv1.JobStatus{
			Failed: 2, FailedIndexes: ptr.To("0,1"),
			Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonMaxFailedIndexesExceeded}},
		},
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	failed := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "work-3", UID: "failed", Finalizers: []string{batchv1.JobTrackingFinalizer},
			Labels: j.Spec.Selector.MatchLabels, Annotations: map[string]string{batchv1.JobCompletionIndexAnnotation: "3"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Status: corev1.PodStatus{Phase: corev1.PodFailed},
	}
	removed := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "work-2", UID: "pod", Finalizers: []string{batchv1.JobTrackingFinalizer},
			Labels: j.Spec.Selector.MatchLabels, Annotations: map[string]string{batchv1.JobCompletionIndexAnnotation: "2"},
			DeletionTimestamp: ptr.To(metav1.NewTime(now)),
			OwnerReferences:   []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	d := Plan(now, State{Job: j, Pods: []*corev1.Pod{removed, failed}, Limits: DefaultLimits})
	if d.Status == nil || len(d.Status.UncountedTerminatedPods.Failed) != 2 || *d.Status.FailedIndexes != "0,1,3" {
		t.Errorf("status %+v; want two more failures, and the failed indexes 0,1,3", d.Status)
	}
}
