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

// TestRefusals: an object whose write failed is left alone, twice as long each time; others
// are not, and a success ends it.
func TestRefusals(t *testing.T) {
	var m memory
	now := time.Unix(0, 0)
	a := &workload.Action{Verb: workload.Delete, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}}}
	b := &workload.Action{Verb: workload.Delete, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "b"}}}
	refused := errors.New("a webhook says no")
	for want := reconcile.RetryFirst; want < reconcile.RetryMost; want *= 2 {
		m.tried(a, now, refused)
		if err, waits := m.waits(a, now.Add(want-1)); !waits || !errors.Is(err, refused) {
			t.Fatalf("after %s it is tried again: %v", want-1, err)
		}
		if _, waits := m.waits(b, now); waits {
			t.Fatal("another one waits too")
		}
		now = now.Add(want)
		if _, waits := m.waits(a, now); waits {
			t.Fatalf("after %s it waits still", want)
		}
	}
	m.tried(a, now, reconcile.ErrStale)
	m.tried(a, now, refused)
	if _, waits := m.waits(a, now.Add(reconcile.RetryFirst)); waits {
		t.Error("it waits as if it had never been otherwise")
	}
}
