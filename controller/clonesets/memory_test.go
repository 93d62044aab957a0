package clonesets

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/controller/shell"
	"github.com/rehearse-k8s/rehearse/workload"
)

// TestLost: a patch or delete whose answer was lost is open until somebody has looked, with
// the UID that it was for; what was to be made has none.
func TestLost(t *testing.T) {
	var m memory
	m.lose(podsResource, "a", "uid-a")
	m.Unsettled(podsResource + "/b")
	open := m.Open()
	slices.Sort(open)
	if !slices.Equal(open, []string{"pods/a", "pods/b"}) {
		t.Fatalf("open: %q", open)
	}
	fresh := func(string) string { return "100" }
	if _, why := m.Behind(fresh, nil); why == "" {
		t.Error("it may go on although nobody knows what became of a")
	}
	for name, want := range map[string]string{"pods/a": "uid-a", "pods/b": ""} {
		if got := m.lost(name); string(got) != want {
			t.Errorf("%s: UID %q", name, got)
		}
		m.Settled(name)
	}
	if m.lost("pods/a") != "" {
		t.Error("it is remembered after it was settled")
	}
	if _, why := m.Behind(fresh, nil); why != "" {
		t.Errorf("behind: %s", why)
	}
}

// TestRefusals: an object whose write failed is left alone, twice as long each time; others
// are not, and a success ends it.
func TestRefusals(t *testing.T) {
	var m memory
	now := time.Unix(0, 0)
	a := &workload.Action{Verb: workload.Delete, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}}}
	b := &workload.Action{Verb: workload.Delete, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "b"}}}
	refused := errors.New("a webhook says no")
	for want := shell.RetryFirst; want < shell.RetryMost; want *= 2 {
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
	m.tried(a, now, shell.ErrStale)
	m.tried(a, now, refused)
	if _, waits := m.waits(a, now.Add(shell.RetryFirst)); waits {
		t.Error("it waits as if it had never been otherwise")
	}
}
