package store

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/ptr"
)

// next receives one event, which the watch must send within a short time.
func next(t testing.TB, w watch.Interface) watch.Event {
	t.Helper()
	event, open := <-w.ResultChan()
	if !open {
		t.Fatal("the watch has ended")
	}
	return event
}

func nextIs(t testing.TB, w watch.Interface, typ watch.EventType, rev int64) watch.Event {
	t.Helper()
	event := next(t, w)
	if event.Type == watch.Error {
		t.Fatalf("the watch failed: %+v", event.Object)
	}
	if event.Type != typ || rvOf(t, event.Object) != rev {
		t.Fatalf("received %s of revision %d, expected %s of %d", event.Type, rvOf(t, event.Object), typ, rev)
	}
	return event
}

// nextFails receives an error event and checks that the watch ends.
func nextFails(t testing.TB, w watch.Interface) error {
	t.Helper()
	event := next(t, w)
	if event.Type != watch.Error {
		t.Fatalf("received %+v, expected an error", event)
	}
	if after, open := <-w.ResultChan(); open {
		t.Fatalf("after its error the watch sent %+v", after)
	}
	return apierrors.FromObject(event.Object)
}

// TestSlowReaderGetsAnError checks that a slow reader receives 410, and every event before it.
func TestSlowReaderGetsAnError(t *testing.T) {
	ws := New(Options{})
	ws.queueLimit = 50
	s := pods(t, ws, nil)
	w := mustWatch(t, t.Context(), s, everything(1))
	for i := range 1000 {
		mustCreate(t, t.Context(), s, pod("ns", fmt.Sprint(i)))
	}
	for rev := int64(2); ; rev++ {
		event := next(t, w)
		if event.Type == watch.Error {
			if err := apierrors.FromObject(event.Object); !apierrors.IsResourceExpired(err) {
				t.Errorf("the watch failed with %v", err)
			}
			break
		}
		if got := rvOf(t, event.Object); got != rev {
			t.Fatalf("received revision %d, expected %d", got, rev)
		}
	}
	if event, open := <-w.ResultChan(); open {
		t.Errorf("after its error the watch sent %+v", event)
	}
}

// TestStartIsNoDelay checks that the initial events may exceed the limit of the queue.
func TestStartIsNoDelay(t *testing.T) {
	ws := New(Options{})
	ws.queueLimit = 5
	s := pods(t, ws, nil)
	for i := range 500 {
		mustCreate(t, t.Context(), s, pod("ns", fmt.Sprintf("%03d", i)))
	}
	fromStart := mustWatch(t, t.Context(), s, everything(1))
	initial := everything(0)
	initial.ResourceVersion, initial.SendInitialEvents = "", ptr.To(true)
	withInitial := mustWatch(t, t.Context(), s, initial)
	mustCreate(t, t.Context(), s, pod("ns", "last"))
	for i := range int64(501) {
		nextIs(t, fromStart, watch.Added, i+2)
		nextIs(t, withInitial, watch.Added, i+2)
	}
}

// TestStartWithManyObjects checks that a watch with more initial objects than the limit of the
// queue completes its start although its reader is slow: it reads nothing while others write.
func TestStartWithManyObjects(t *testing.T) {
	const present, written = 120_000, 1_000
	ws := New(Options{})
	s := pods(t, ws, nil)
	for i := range present {
		mustCreate(t, t.Context(), s, pod("ns", fmt.Sprintf("%06d", i)))
	}
	opts := everything(0)
	opts.ResourceVersion, opts.SendInitialEvents = "", ptr.To(true)
	opts.Predicate.AllowWatchBookmarks = true
	w := mustWatch(t, t.Context(), s, opts)
	for i := range written {
		mustUpdate(t, t.Context(), s, fmt.Sprintf("/pods/ns/%06d", i), func(p *example.Pod) { p.Generation = 2 })
	}
	for i := range int64(present) {
		nextIs(t, w, watch.Added, i+2)
	}
	end := nextIs(t, w, watch.Bookmark, present+1)
	if marked, err := storage.HasInitialEventsEndBookmarkAnnotation(end.Object); err != nil || !marked {
		t.Errorf("the bookmark after the initial events is not marked as their end: %v", err)
	}
	for i := range int64(written) {
		nextIs(t, w, watch.Modified, present+2+i)
	}
}

func TestWatchEnds(t *testing.T) {
	s := pods(t, New(Options{}), nil)
	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(t.Context())
	stopped := mustWatch(t, ctx, s, everything(1))
	cancelled := mustWatch(t, ctx, s, everything(1))
	full := mustWatch(t, ctx, s, everything(1))
	for i := range 3 * resultBuffer { // its goroutine blocks in a send
		mustCreate(t, t.Context(), s, pod("ns", fmt.Sprint(i)))
	}
	stopped.Stop()
	stopped.Stop()
	cancel()
	for _, w := range []watch.Interface{stopped, cancelled, full} {
		for range w.ResultChan() {
		}
	}
	world := s.worlds.World("")
	world.mu.RLock()
	left := len(world.watchers.all()) + len(world.watchers.progress)
	world.mu.RUnlock()
	if left != 0 {
		t.Errorf("%d watches are still in the world", left)
	}
	goleak.VerifyNone(t, before)
}

func TestWatchFromTheFuture(t *testing.T) {
	s := pods(t, New(Options{}), nil)
	opts := everything(5)
	opts.ProgressNotify = true
	w := mustWatch(t, t.Context(), s, opts)
	for i := range 5 { // revisions 2 to 6
		mustCreate(t, t.Context(), s, pod("ns", fmt.Sprint(i)))
		if err := s.RequestWatchProgress(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	nextIs(t, w, watch.Bookmark, 5)
	nextIs(t, w, watch.Added, 6)
	nextIs(t, w, watch.Bookmark, 6)
}

func TestWatchListFromTheFuture(t *testing.T) {
	s := pods(t, New(Options{}), nil)
	opts := everything(102)
	opts.SendInitialEvents = ptr.To(true)
	w := mustWatch(t, t.Context(), s, opts)
	err := nextFails(t, w)
	if !storage.IsTooLargeResourceVersion(err) {
		t.Errorf("the watch failed with %v", err)
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); !ok || seconds < 1 {
		t.Errorf("the client is asked to wait %d seconds", seconds)
	}
}

func TestWatchTooOld(t *testing.T) {
	ws := New(Options{})
	s := pods(t, ws, nil)
	for i := range 4 { // revisions 2 to 5
		mustCreate(t, t.Context(), s, pod("ns", fmt.Sprint(i)))
	}
	if err := ws.World("").Compact(3); err != nil {
		t.Fatal(err)
	}
	if err := nextFails(t, mustWatch(t, t.Context(), s, everything(2))); !apierrors.IsResourceExpired(err) {
		t.Errorf("the watch failed with %v", err)
	}
	w := mustWatch(t, t.Context(), s, everything(3))
	nextIs(t, w, watch.Added, 4)
	nextIs(t, w, watch.Added, 5)
}

func TestProgress(t *testing.T) {
	ws := New(Options{})
	s := pods(t, ws, nil)
	asked := everything(1)
	asked.ProgressNotify = true
	w, silent := mustWatch(t, t.Context(), s, asked), mustWatch(t, t.Context(), s, everything(1))
	current := func() {
		t.Helper()
		if _, err := s.GetCurrentResourceVersion(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	mustCreate(t, t.Context(), s, pod("ns", "a"))
	current() // known from the event: no bookmark
	ws.World("").RawPut("/other/key", nil, anyRevision)
	current()
	current() // known from the bookmark
	mustCreate(t, t.Context(), s, pod("ns", "b"))
	if err := s.RequestWatchProgress(t.Context()); err != nil { // an explicit request sends it in any case
		t.Fatal(err)
	}
	mustDelete(t, t.Context(), s, "/pods/ns/b")

	nextIs(t, w, watch.Added, 2)
	nextIs(t, w, watch.Bookmark, 3)
	nextIs(t, w, watch.Added, 4)
	nextIs(t, w, watch.Bookmark, 4)
	nextIs(t, w, watch.Deleted, 5)
	nextIs(t, silent, watch.Added, 2)
	nextIs(t, silent, watch.Added, 4)
	nextIs(t, silent, watch.Deleted, 5)
}

// TestProgressOfLateWatch checks a watch cache that begins after the revision that a reader already
// waits for: it receives that revision at once.
func TestProgressOfLateWatch(t *testing.T) {
	ws := New(Options{})
	s := pods(t, ws, nil)
	ws.World("").RawPut("/other/key", nil, anyRevision)
	opts := everything(1)
	opts.ProgressNotify = true
	nextIs(t, mustWatch(t, t.Context(), s, opts), watch.Bookmark, 2)
}

// TestProbe checks that Owed is exact as soon as a write returns.
func TestProbe(t *testing.T) {
	s := pods(t, New(Options{}), nil)
	mustCreate(t, t.Context(), s, pod("ns", "early"))
	probe := &Probe{}
	opts := everything(1)
	opts.ProgressNotify = true
	opts.Predicate = storage.SelectionPredicate{
		Label:    labels.SelectorFromSet(labels.Set{"color": "red"}),
		Field:    fields.Everything(),
		GetAttrs: podAttrs,
	}
	w := mustWatch(t, WithProbe(t.Context(), probe), s, opts)
	check := func(what string, pushed, owed int64) {
		t.Helper()
		if probe.Pushed() != pushed || probe.Owed() != owed || probe.Filtered() != pushed-owed {
			t.Errorf("%s: pushed %d, filtered %d, owed %d; expected %d and %d",
				what, probe.Pushed(), probe.Filtered(), probe.Owed(), pushed, owed)
		}
	}
	check("an object that is not selected and a bookmark", 2, 1)
	mustUpdate(t, t.Context(), s, "/pods/ns/early", func(p *example.Pod) { p.Labels = map[string]string{"color": "red"} })
	check("it enters the selection", 3, 2)
	mustUpdate(t, t.Context(), s, "/pods/ns/early", func(p *example.Pod) { p.Labels = map[string]string{"color": "green"} })
	check("it leaves the selection", 4, 3)
	mustDelete(t, t.Context(), s, "/pods/ns/early")
	check("it goes unseen", 5, 3)

	nextIs(t, w, watch.Bookmark, 2)
	nextIs(t, w, watch.Added, 3)
	nextIs(t, w, watch.Deleted, 4)
	stop(w)
	if probe.Sent() != probe.Owed() {
		t.Errorf("sent %d, owed %d", probe.Sent(), probe.Owed())
	}
}

func TestProbeOfSlowReader(t *testing.T) {
	ws := New(Options{})
	ws.queueLimit = 5
	s := pods(t, ws, nil)
	probe := &Probe{}
	w := mustWatch(t, WithProbe(t.Context(), probe), s, everything(1))
	for i := range 1000 {
		mustCreate(t, t.Context(), s, pod("ns", fmt.Sprint(i)))
	}
	for range w.ResultChan() {
	}
	if probe.Sent() != probe.Owed() || probe.Sent() == 0 {
		t.Errorf("sent %d, owed %d", probe.Sent(), probe.Owed())
	}
}

// TestProbesUnderLoad checks that each watch has finally sent exactly what it owed, under
// concurrent writes.
func TestProbesUnderLoad(t *testing.T) {
	s := pods(t, New(Options{}), nil)
	var writers, readers sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	type probed struct {
		probe Probe
		taken int64
	}
	all := make([]probed, 8)
	for i := range all {
		w := mustWatch(t, WithProbe(ctx, &all[i].probe), s, everything(1))
		readers.Go(func() {
			for range w.ResultChan() {
				all[i].taken++
				if all[i].taken == 400 {
					return
				}
			}
		})
	}
	for n := range 4 {
		writers.Go(func() {
			for i := range 100 {
				mustCreate(t, ctx, s, pod("ns", fmt.Sprintf("%d-%d", n, i)))
			}
		})
	}
	writers.Wait()
	for i := range all {
		if got := all[i].probe.Owed(); got != 400 {
			t.Errorf("watch %d owes %d", i, got)
		}
	}
	readers.Wait()
	cancel()
}
