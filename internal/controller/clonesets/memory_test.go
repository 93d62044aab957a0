package clonesets

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// TestWriteBackoff checks that an object whose write failed is not written for a time that doubles with each
// failure, that other objects are written meanwhile, and that a success resets the backoff.
func TestWriteBackoff(t *testing.T) {
	var m memory
	now := time.Unix(0, 0)
	a := &workload.Action{Verb: workload.Delete, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}}}
	b := &workload.Action{Verb: workload.Delete, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "b"}}}
	rejected := errors.New("a webhook says no")
	for want := reconcile.RetryFirst; want < reconcile.RetryMost; want *= 2 {
		m.recordAttempt(a, now, rejected)
		if err, waits := m.waits(a, now.Add(want-1)); !waits || !errors.Is(err, rejected) {
			t.Fatalf("written again %s after the failure: %v", want-1, err)
		}
		if _, waits := m.waits(b, now); waits {
			t.Fatal("another object waits too")
		}
		now = now.Add(want)
		if _, waits := m.waits(a, now); waits {
			t.Fatalf("still in backoff after %s", want)
		}
	}
	m.recordAttempt(a, now, reconcile.ErrStale)
	m.recordAttempt(a, now, rejected)
	if _, waits := m.waits(a, now.Add(reconcile.RetryFirst)); waits {
		t.Error("the backoff was not reset")
	}
}
