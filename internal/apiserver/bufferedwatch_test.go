package apiserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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

// TestBufferedWatchOrder writes without a reader, as in a burst, into a source without a buffer: an
// unbuffered watch would block at the first event.
func TestBufferedWatchOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := watch.NewFake()
		w := newBufferedWatch(t.Context(), source, "", nil, nil, nil, maxBufferedEvents, resultEvents)
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

// TestBufferedWatchEnds: after its source has ended, a watch delivers what the source sent; a reader may stop
// before it has read all events. The bubble fails if goroutines remain.
func TestBufferedWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := watch.NewFake()
		w := newBufferedWatch(t.Context(), source, "", nil, nil, nil, maxBufferedEvents, resultEvents)
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
		w = newBufferedWatch(t.Context(), source, "", nil, nil, nil, maxBufferedEvents, 0)
		source.Add(event(0).Object)
		synctest.Wait() // the watch waits for its reader
		w.Stop()
		synctest.Wait()
	})
}

// TestBufferIsLimited: a reader that lags too far receives the buffered events and then the end, so that it
// restarts from the last event that it observed; no event is skipped.
func TestBufferIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const kept = maxBufferedEvents + resultEvents
		source := watch.NewFakeWithChanSize(kept+100, false)
		for i := range kept + 100 {
			source.Add(event(i).Object)
		}
		w := newBufferedWatch(t.Context(), source, "", nil, nil, nil, maxBufferedEvents, resultEvents)
		synctest.Wait()
		seen := 0
		for e := range w.ResultChan() {
			if number(t, e) != seen {
				t.Fatalf("event %d came in the place of %d", number(t, e), seen)
			}
			seen++
		}
		if seen != kept {
			t.Errorf("%d events, want %d", seen, kept)
		}
	})
}

// revised returns an event from which a watch can resume.
func revised(kind watch.EventType, i int) watch.Event {
	e := event(i)
	e.Type = kind
	e.Object.(*corev1.ConfigMap).ResourceVersion = fmt.Sprint(i)
	return e
}

// ended returns a source that has sent some events and then ended, as the cache ends the watch of a slow
// reader.
func ended(events ...watch.Event) watch.Interface {
	w := watch.NewFakeWithChanSize(len(events), false)
	for _, e := range events {
		w.Action(e.Type, e.Object)
	}
	w.Stop()
	return w
}

// TestBufferedWatchResumes: the cache may end a watch at any time; the reader observes every event once. A
// watch ends after an error event, and when its sources yield no further event.
func TestBufferedWatchResumes(t *testing.T) {
	added, modified := func(i int) watch.Event { return revised(watch.Added, i) }, func(i int) watch.Event { return revised(watch.Modified, i) }
	bookmark := func(i int) watch.Event { return revised(watch.Bookmark, i) }
	failed := watch.Event{Type: watch.Error, Object: &metav1.Status{Code: 410}}
	gone := errors.New("too old")
	for name, c := range map[string]struct {
		sources []watch.Interface // then an error
		events  int
		after   []string // the revision at which it was restarted
	}{
		"after events":     {[]watch.Interface{ended(), ended(added(2), modified(3)), ended(added(4))}, 3, []string{"1", "3", "4"}},
		"after a bookmark": {[]watch.Interface{ended(added(2), bookmark(9)), ended(modified(10))}, 3, []string{"9", "10"}},
		"after an error":   {[]watch.Interface{ended(modified(2), failed), ended(modified(3))}, 2, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var after []string
				next := c.sources[1:]
				w := newBufferedWatch(t.Context(), c.sources[0], "1", nil, func(revision string) (watch.Interface, error) {
					after = append(after, revision)
					if len(next) == 0 {
						return nil, gone
					}
					source := next[0]
					next = next[1:]
					return source, nil
				}, nil, maxBufferedEvents, resultEvents)
				events := 0
				for range w.ResultChan() {
					events++
				}
				if events != c.events || !slices.Equal(after, c.after) {
					t.Errorf("%d events, restarted after %v; want %d, %v", events, after, c.events, c.after)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		times := 0
		w := newBufferedWatch(t.Context(), ended(), "1", nil, func(string) (watch.Interface, error) {
			times++
			return ended(), nil
		}, nil, maxBufferedEvents, resultEvents)
		if _, ok := <-w.ResultChan(); ok || times != maxEmptyRestarts {
			t.Errorf("restarted %d times without coming any further, want %d and the end", times, maxEmptyRestarts)
		}
	})
}

// TestInitialEventsDoNotCount: a reader that has read nothing yet is not behind, whatever the number of
// initial objects; later events follow, even if the cache ends the source of the watch in the meantime.
func TestInitialEventsDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const present = maxBufferedEvents + 100
		initial := &initialEvents{end: revised(watch.Bookmark, present).Object}
		for i := range present {
			initial.objects = append(initial.objects, event(i).Object)
		}
		sources := []watch.Interface{ended(revised(watch.Modified, present+1)), watch.NewFake()}
		w := newBufferedWatch(t.Context(), ended(), fmt.Sprint(present), initial, func(string) (watch.Interface, error) {
			source := sources[0]
			sources = sources[1:]
			return source, nil
		}, nil, maxBufferedEvents, resultEvents)
		synctest.Wait()
		for i := range present + 2 {
			want := watch.Added
			switch i {
			case present:
				want = watch.Bookmark
			case present + 1:
				want = watch.Modified
			}
			if e := <-w.ResultChan(); e.Type != want || number(t, e) != i {
				t.Fatalf("event %d is %s of %d, want %s", i, e.Type, number(t, e), want)
			}
		}
		w.Stop()
	})
}

// TestWatchOfNoneOfTheWrites: in a burst of writes, the cache ends a watch whose selector matches none of them more often than
// maxEmptyRestarts; it continues, and delivers the first write that matches. Without writes it ends, because a source that
// always ends would be opened forever.
func TestWatchOfNoneOfTheWrites(t *testing.T) {
	for name, c := range map[string]struct {
		written bool
		events  int
	}{"writes": {true, 1}, "no writes": {false, 0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				restarts := 0
				restart := func(string) (watch.Interface, error) {
					if restarts++; restarts < 5*maxEmptyRestarts {
						return ended(), nil
					}
					source := watch.NewFakeWithChanSize(1, false)
					source.Add(revised(watch.Added, 1000).Object)
					return source, nil
				}
				revision := func() uint64 {
					if c.written {
						return uint64(restarts)
					}
					return 7
				}
				w := newBufferedWatch(t.Context(), ended(), "1", nil, restart, revision, maxBufferedEvents, resultEvents)
				synctest.Wait()
				events := 0
				if _, ok := <-w.ResultChan(); ok {
					events++
				}
				if events != c.events {
					t.Errorf("%d events after %d restarts, want %d", events, restarts, c.events)
				}
				w.Stop()
			})
		})
	}
}

// TestReaderFindsEvents: events wait in the channel itself, where upstream's handler looks before it flushes the connection. In a channel
// without a buffer there is never one, so it flushes after each event.
func TestReaderFindsEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := watch.NewFake()
		w := newBufferedWatch(t.Context(), source, "", nil, nil, nil, maxBufferedEvents, resultEvents)
		for i := range 3 * resultEvents {
			source.Action(event(i).Type, event(i).Object)
		}
		for range 2 * resultEvents {
			synctest.Wait()
			if n := len(w.ResultChan()); n != resultEvents {
				t.Fatalf("the reader finds %d events without waiting", n)
			}
			<-w.ResultChan()
		}
		w.Stop()
	})
}

// TestBufferedWatchEndsWithContext: upstream's handler does not stop a watch whose encoding it rejects; the context of the request ends.
func TestBufferedWatchEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		source := watch.NewFake()
		var initial initialEvents
		for i := range 3 * resultEvents {
			initial.objects = append(initial.objects, event(i).Object)
		}
		w := newBufferedWatch(ctx, source, "", &initial, nil, nil, maxBufferedEvents, resultEvents)
		synctest.Wait()
		cancel()
		synctest.Wait()
		if !source.IsStopped() {
			t.Error("the watch has not ended")
		}
		for range w.ResultChan() { // without the context, it would end here
		}
	})
}

// TestInitialEventsReleaseObjects: after the last event, nothing of the list is kept for the life of the watch.
func TestInitialEventsReleaseObjects(t *testing.T) {
	initial := &initialEvents{objects: []runtime.Object{event(0).Object, event(1).Object}}
	for range 2 {
		if _, ok := initial.next(); !ok {
			t.Fatal("an event is missing")
		}
	}
	if _, ok := initial.next(); ok || initial.objects != nil {
		t.Error("the list is kept")
	}
}
