package apiserver

import (
	"fmt"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func event(i int) watch.Event {
	return watch.Event{Type: watch.Added, Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}}}
}

func number(t *testing.T, e watch.Event) (i int) {
	t.Helper()
	if _, err := fmt.Sscan(e.Object.(*corev1.ConfigMap).Name, &i); err != nil {
		t.Fatal(err)
	}
	return i
}

// TestPatientWatchKeepsAllInOrder writes without a reader, as a burst does, into a
// source without any room: the naive hand-over would block at the first event.
func TestPatientWatchKeepsAllInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := watch.NewFake()
		w := newPatientWatch(source)
		const n = 10_000
		for i := range n {
			source.Action(event(i).Type, event(i).Object)
		}
		for i := range n {
			if got := number(t, <-w.ResultChan()); got != i {
				t.Fatalf("event %d came in the place of %d", got, i)
			}
		}
		w.Stop()
		synctest.Wait()
		if _, ok := <-w.ResultChan(); ok {
			t.Error("an event after Stop")
		}
	})
}

// TestPatientWatchEnds covers a source that ends (what it sent is delivered), and
// readers that stop with events waiting; the bubble fails on goroutines left.
func TestPatientWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := watch.NewFake()
		w := newPatientWatch(source)
		source.Add(event(0).Object)
		source.Stop()
		if e, ok := <-w.ResultChan(); !ok || number(t, e) != 0 {
			t.Error("what the source sent before it ended is lost")
		}
		if _, ok := <-w.ResultChan(); ok {
			t.Error("an event after the end")
		}
		w.Stop() // after its end, and twice
		w.Stop()

		source = watch.NewFake()
		w = newPatientWatch(source)
		source.Add(event(0).Object)
		synctest.Wait()
		w.Stop()
		synctest.Wait()
	})
}

// TestPatienceHasAnEnd: a reader too far behind is sent what was queued and then
// the end, so that it starts again from the last event it saw; nothing is skipped.
func TestPatienceHasAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := watch.NewFakeWithChanSize(maxPatience+100, false)
		for i := range maxPatience + 100 {
			source.Add(event(i).Object)
		}
		w := newPatientWatch(source)
		synctest.Wait()
		seen := 0
		for e := range w.ResultChan() {
			if number(t, e) != seen {
				t.Fatalf("event %d came in the place of %d", number(t, e), seen)
			}
			seen++
		}
		if seen != maxPatience {
			t.Errorf("%d events, want %d", seen, maxPatience)
		}
	})
}
