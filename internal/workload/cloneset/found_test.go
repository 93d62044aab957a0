package cloneset

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// Errors that the search of test/clonesets has found, each reduced to the one plan that was wrong.

var foundAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// patched returns the patch with which a decision writes to a pod, without the actions that follow; nil if
// there is none.
func patched(t *testing.T, d Decision, name string) *patch {
	t.Helper()
	for _, a := range d.Actions {
		if a.Verb == workload.Patch && a.Object.GetName() == name {
			b := a.Patch.(patch)
			return &b
		}
	}
	return nil
}

func stateOf(b *patch) kruise.LifecycleState {
	if b == nil || b.Metadata.Labels[kruise.LabelState] == nil {
		return ""
	}
	return kruise.LifecycleState(*b.Metadata.Labels[kruise.LabelState])
}

// recordOf returns the record of an update in place that a patch writes.
func recordOf(t *testing.T, b *patch) string {
	t.Helper()
	return annotation(t, b.Metadata.Annotations[kruise.AnnotationInPlaceState])
}

// annotation returns an annotation of a patch as the API server decodes it.
func annotation(t *testing.T, v any) (s string) {
	t.Helper()
	encoded, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(encoded, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// in sets the lifecycle state of a pod.
func in(p *Pod, state kruise.LifecycleState) {
	p.Labels[kruise.LabelState], p.state = string(state), state
}

// TestPausedStatusIsWrittenOnce checks that a paused update does not write its status again every second
// because the time of the last progress changes.
func TestPausedStatusIsWrittenOnce(t *testing.T) {
	s := bigState(foundAt, 2, 0)
	s.Set.Spec.UpdateStrategy.Paused, s.Set.Spec.ProgressDeadlineSeconds = true, ptr.To[int32](60)
	d := Plan(foundAt, s)
	if d.Status == nil {
		t.Fatal("the first status is not written")
	}
	s.Set.Status, s.Past = *d.Status, d.Past
	if d := Plan(foundAt.Add(5*time.Second), s); d.Status != nil {
		t.Errorf("the status is written again: %+v", d.Status.Conditions)
	}
	s.Set.Spec.UpdateStrategy.Paused = false
	later := foundAt.Add(5 * time.Minute)
	if d := Plan(later, s); d.Status == nil || !condition(d.Status, v1alpha1.Progressing).LastUpdateTime.Time.Equal(later) {
		t.Errorf("after the pause the deadline does not restart: %+v", d.Status)
	}
}

// TestEmptyFieldsOfConditionsAreWritten checks that a patch of a condition contains an empty message: a
// strategic merge patch keeps fields that it does not contain, and each plan would remove the old message
// again.
func TestEmptyFieldsOfConditionsAreWritten(t *testing.T) {
	s := bigState(foundAt, 1, 1)
	pod := s.Pods[0]
	pod.Gates, pod.traffic = append(pod.Gates, kruise.ConditionPodReady), true
	pod.Traffic = Condition{Status: corev1.ConditionFalse, Message: `[{"userAgent":"Lifecycle","key":"preUpdateHook"}]`}
	for _, a := range Plan(foundAt, s).Actions {
		if text, _ := json.Marshal(a.Patch); strings.Contains(string(text), kruise.ConditionPodReady) && strings.Contains(string(text), `"message":""`) {
			return
		}
	}
	t.Error("the condition's message stays")
}

// TestPreNormalAfterInPlaceUpdate checks that a pod that has not been Normal returns to its preNormal hook,
// however its update in place ends.
func TestPreNormalAfterInPlaceUpdate(t *testing.T) {
	fresh := func() (State, *Pod) {
		s := bigState(foundAt, 1, 0)
		s.Set.Spec.UpdateStrategy.Type = v1alpha1.InPlaceIfPossible
		s.Set.Spec.Lifecycle = &kruise.Lifecycle{
			PreNormal:     &kruise.LifecycleHook{LabelsHandler: map[string]string{"registered": "yes"}},
			InPlaceUpdate: &kruise.LifecycleHook{LabelsHandler: map[string]string{"undrained": "yes"}},
		}
		s.Pods[0].Labels["undrained"] = "yes"
		in(s.Pods[0], kruise.StatePreparingNormal)
		return s, s.Pods[0]
	}
	s, pod := fresh()
	b := patched(t, Plan(foundAt, s), pod.Name)
	if stateOf(b) != kruise.StatePreparingUpdate || b.Metadata.Annotations[kruise.AnnotationInPlaceState] == nil {
		t.Fatalf("want PreparingUpdate, and a record that the pod was PreparingNormal: %+v", b)
	}
	record := recordOf(t, b)
	for name, turn := range map[string]func(*State){
		"the update is not wanted any more": func(s *State) { s.Set.Spec.UpdateStrategy.Partition = ptr.To(intstr.FromInt32(1)) },
		"it was of metadata only": func(s *State) {
			s.Revisions[0].Template = s.Revisions[1].Template.DeepCopy()
			s.Revisions[0].Template.Annotations = map[string]string{"old": "yes"}
			s.Set.Spec.Lifecycle.InPlaceUpdate = nil
		},
	} {
		s, pod := fresh()
		pod.InPlaceState = record
		in(pod, kruise.StatePreparingUpdate)
		turn(&s)
		if got := stateOf(patched(t, Plan(foundAt, s), pod.Name)); got != kruise.StatePreparingNormal {
			t.Errorf("%s: it becomes %q", name, got)
		}
	}
	delete(pod.Labels, "undrained")
	pod.InPlaceState = record
	in(pod, kruise.StatePreparingUpdate)
	b = patched(t, Plan(foundAt, s), pod.Name)
	if b == nil || !strings.Contains(recordOf(t, b), `"preparingNormal":true`) {
		t.Errorf("the update starts without the record: %+v", b)
	}
	// The record of an earlier update does not apply to a pod that is Normal.
	s, pod = fresh()
	pod.InPlaceState = record
	in(pod, kruise.StateNormal)
	b = patched(t, Plan(foundAt, s), pod.Name)
	if stateOf(b) != kruise.StatePreparingUpdate || strings.Contains(recordOf(t, b), "preparingNormal") {
		t.Errorf("a Normal pod counts as one that has never been Normal: %+v", b)
	}
}

// TestUpdatingStaysUpdating checks that a change of metadata alone does not end an update whose containers
// have not restarted yet.
func TestUpdatingStaysUpdating(t *testing.T) {
	s := bigState(foundAt, 1, 0)
	s.Set.Spec.UpdateStrategy.Type = v1alpha1.InPlaceIfPossible
	s.Revisions[0].Template = s.Revisions[1].Template.DeepCopy()
	s.Revisions[0].Template.Annotations = map[string]string{"old": "yes"}
	pod := s.Pods[0]
	in(pod, kruise.StateUpdating)
	pod.InPlace.Status, pod.Ready.Status = corev1.ConditionFalse, corev1.ConditionFalse
	pod.Containers[0].Image = "web:2"
	pod.InPlaceState = annotation(t, text{kruise.InPlaceUpdateState{Revision: "web-0", UpdateTimestamp: metav1.NewTime(foundAt), LastContainerStatuses: map[string]kruise.InPlaceContainerStatus{
		"main": {ImageID: "web:1", ContainerID: "web:1"}}}})
	b := patched(t, Plan(foundAt, s), pod.Name)
	if state := stateOf(b); b == nil || state != "" || b.Status != nil {
		t.Errorf("it becomes %q: %+v", state, b)
	}
}

// TestReplacedPodsOnlyGo checks that, when as many pods have been created as are to be updated, no other pod
// is updated in place as well.
func TestReplacedPodsOnlyGo(t *testing.T) {
	s := bigState(foundAt, 3, 1)
	s.Set.Spec.Replicas, s.Set.Spec.UpdateStrategy.Type = ptr.To[int32](2), v1alpha1.InPlaceIfPossible
	s.Set.Spec.UpdateStrategy.Partition, s.Set.Spec.UpdateStrategy.MaxSurge = ptr.To(intstr.FromInt32(1)), ptr.To(intstr.FromInt32(1))
	// One outdated pod can only be recreated.
	other := *s.Revisions[0]
	other.Template = other.Template.DeepCopy()
	other.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "b"}}
	other.Object = other.Object.DeepCopy()
	other.Object.Name, other.Object.Revision, other.Digest = "web-other", 0, "other"
	other.Defaulted = other.Template
	s.Revisions = append(s.Revisions, &other)
	s.Pods[2].Labels[kruise.LabelRevision], s.Pods[2].revision = "web-other", "web-other"
	d := Plan(foundAt, s)
	if d.Tally.Updated > 0 || d.Tally.Deleted != 1 {
		t.Errorf("%d pods are updated in place and %d deleted: %s", d.Tally.Updated, d.Tally.Deleted, fmt.Sprint(d.Reasons))
	}
}

// TestRevisionAfterDeletion checks that a plan that creates a revision reads the set from the API first: the
// set may have been deleted, and the garbage collector would delete each revision that the controller creates
// again.
func TestRevisionAfterDeletion(t *testing.T) {
	s := bigState(foundAt, 1, 1)
	s.Set.Status = *Plan(foundAt, s).Status
	s.Revisions = s.Revisions[:1]
	d := Plan(foundAt, s)
	if d.Status != nil {
		s.Set.Status, s.Past = *d.Status, d.Past
		d = Plan(foundAt, s)
	}
	if len(d.Actions) != 1 || d.Actions[0].Verb != workload.Create || d.Status == nil && !d.Recheck {
		t.Errorf("%d actions, status %t, recheck %t", len(d.Actions), d.Status != nil, d.Recheck)
	}
}

// TestCancelledDeletionCountsAsCreation checks, with pods that wait for their preDelete hook excluded, that a
// plan that cancels a deletion does not also create a pod for the same place.
func TestCancelledDeletionCountsAsCreation(t *testing.T) {
	s := bigState(foundAt, 2, 2)
	s.Set.Labels = map[string]string{kruise.LabelExcludePreparingDelete: "true"}
	s.Set.Spec.Lifecycle = &kruise.Lifecycle{PreDelete: &kruise.LifecycleHook{LabelsHandler: map[string]string{"undrained": "yes"}}}
	s.Pods[1].Labels["undrained"] = "yes"
	in(s.Pods[1], kruise.StatePreparingDelete)
	d := Plan(foundAt, s)
	if got := stateOf(patched(t, d, s.Pods[1].Name)); got != kruise.StatePreparingNormal || d.Tally.Created != 0 {
		t.Errorf("it becomes %q, and %d pods are created", got, d.Tally.Created)
	}
}

// TestSurgeMakesRoom checks that a plan that creates a pod of the new revision for an update does not also
// update another pod in place.
func TestSurgeMakesRoom(t *testing.T) {
	s := bigState(foundAt, 3, 0)
	s.Set.Spec.UpdateStrategy = v1alpha1.CloneSetUpdateStrategy{
		Type: v1alpha1.InPlaceIfPossible, Partition: ptr.To(intstr.FromInt32(2)), MaxUnavailable: ptr.To(intstr.FromInt32(0)), MaxSurge: ptr.To(intstr.FromInt32(1)),
	}
	s.Pods[2].Ready.Status = corev1.ConditionFalse // it is unavailable, so that it can be updated at once
	if d := Plan(foundAt, s); d.Tally.Created+d.Tally.Updated != 1 {
		t.Errorf("%d created and %d updated in place, want 1 pod of the new revision", d.Tally.Created, d.Tally.Updated)
	}
}
