package job

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"
)

// TestUnknownCompletionMode checks that a Job with a completionMode of a later release is left alone,
// including pods that match or do not match, and that an Event reports it.
func TestUnknownCompletionMode(t *testing.T) {
	unknown := func(j *batchv1.Job) { j.Spec.CompletionMode = ptr.To(batchv1.CompletionMode("Quantum")) }
	for _, words := range []string{"p=2 c=3", "p=2 c=3 suspend", "p=2 c=3 deleting", "p=1 c=3 failed=9 backoff=1"} {
		s := State{Job: newJob(words, unknown), Pods: newPods("R, S, F, R unmatched"), Limits: atOnce()}
		d := Plan(noon, s)
		if d.Status != nil || len(d.Actions) > 0 || d.Wake != 0 || d.Recheck {
			t.Errorf("%s: %+v", words, d)
		}
		if len(d.Events) != 1 || !d.Events[0].Warning || d.Events[0].Reason != "UnknownCompletionMode" || len(d.Reasons) == 0 {
			t.Errorf("%s: events %v, reasons %v", words, d.Events, d.Reasons)
		}
	}
	for _, known := range []batchv1.CompletionMode{batchv1.NonIndexedCompletion, batchv1.IndexedCompletion} {
		d := Plan(noon, State{Job: newJob("p=1 c=1", func(j *batchv1.Job) { j.Spec.CompletionMode = &known }), Limits: atOnce()})
		if d.Tally.Created != 1 || len(d.Events) > 0 {
			t.Errorf("%s: %d pods are created, events %v", known, d.Tally.Created, d.Events)
		}
	}
}
