package cloneset

import (
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/api/apps/v1alpha1"
)

func deadline(seconds int32) func(*v1alpha1.CloneSetSpec) {
	return func(s *v1alpha1.CloneSetSpec) { s.ProgressDeadlineSeconds = &seconds }
}

func paused(is bool) func(*v1alpha1.CloneSetSpec) {
	return func(s *v1alpha1.CloneSetSpec) { s.UpdateStrategy.Paused = is }
}

// progressing is the reason of the condition Progressing, "" if there is none.
func (w *world) progressing() string {
	if c := condition(&w.set.Status, v1alpha1.Progressing); c != nil {
		return c.Reason
	}
	return ""
}

// TestPausedIsQuiet: while a set is paused its status does not tell of the time.
func TestPausedIsQuiet(t *testing.T) {
	w := grown(t, 2, deadline(60))
	w.edit(paused(true), image("web:2"))
	w.settle()
	if got := w.progressing(); got != v1alpha1.ReasonPaused {
		t.Fatalf("reason %q", got)
	}
	w.now = w.now.Add(time.Hour)
	if d := w.plan(); d.Status != nil || d.Wake != 0 {
		t.Errorf("status %s, wake %s", asJSON(d.Status), d.Wake)
	}
	w.edit(paused(false))
	w.expect("delete 1") // and the deadline runs from now
	if got := w.progressing(); got != v1alpha1.ReasonUpdated {
		t.Errorf("reason %q", got)
	}
}
