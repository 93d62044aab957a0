package podcache

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// maxUnread is how many changes may wait for one reader. They are pointers to pods that most other
// readers have too.
const maxUnread = 100_000

// watcher is the watch of one reader. It implements watch.Interface.
type watcher struct {
	cache  *Cache
	keep   func(*corev1.Pod) bool
	result chan watch.Event
	stop   chan struct{}
	once   sync.Once
	wake   chan struct{} // queue or ended has changed
	unread atomic.Int64
	limit  int64 // of unread: maxUnread plus the initial events

	mu    sync.Mutex
	queue []watch.Event
	ended bool // no event follows those in queue
}

func newWatcher(c *Cache, keep func(*corev1.Pod) bool) *watcher {
	return &watcher{cache: c, keep: keep, result: make(chan watch.Event), stop: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// start delivers events until ctx ends.
func (w *watcher) start(ctx context.Context) {
	w.limit = maxUnread + int64(len(w.queue))
	w.unread.Store(int64(len(w.queue)))
	unhook := context.AfterFunc(ctx, w.Stop)
	go func() {
		defer close(w.result) // last, so that a reader that sees the end is already removed
		defer w.cache.removeReader(w)
		defer unhook()
		w.run()
	}()
}

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.result }

// Stop implements watch.Interface.
func (w *watcher) Stop() { w.once.Do(func() { close(w.stop) }) }

// send queues the event that a change is for this reader, if it is one. It never blocks.
func (w *watcher) send(c change) {
	if e, ok := w.event(c); ok {
		w.enqueue(e)
	}
}

func (w *watcher) enqueue(e watch.Event) {
	w.mu.Lock()
	if !w.ended {
		if w.unread.Add(1) > w.limit {
			w.ended = true // the reader resumes after the last event it received, or lists again
		} else {
			w.queue = append(w.queue, e)
		}
	}
	w.mu.Unlock()
	w.notify()
}

func (w *watcher) notify() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// event converts a change to the event that a watch with the reader's selector has for it.
func (w *watcher) event(c change) (e watch.Event, ok bool) {
	old, now := c.old != nil && w.keep(c.old), !c.deleted && w.keep(c.now)
	switch {
	case old && now:
		return watch.Event{Type: watch.Modified, Object: c.now}, true
	case now:
		return watch.Event{Type: watch.Added, Object: c.now}, true
	case old && c.deleted:
		return watch.Event{Type: watch.Deleted, Object: c.now}, true
	case old: // the API sends the last matching state, with the revision of the change
		last := *c.old
		last.ResourceVersion = c.now.ResourceVersion
		return watch.Event{Type: watch.Deleted, Object: &last}, true
	}
	return e, false
}

// observes reports whether a change is an event for this reader.
func (w *watcher) observes(c change) bool {
	_, ok := w.event(c)
	return ok
}

// expire ends the watch with a 410, so that the reader lists again.
func (w *watcher) expire(revision uint64) {
	w.mu.Lock()
	if !w.ended {
		status := expired(revision).Status()
		w.queue, w.ended = []watch.Event{{Type: watch.Error, Object: &status}}, true
	}
	w.mu.Unlock()
	w.notify()
}

func (w *watcher) run() {
	for consecutive := false; ; {
		w.mu.Lock()
		batch, ended := w.queue, w.ended
		w.queue = nil
		w.mu.Unlock()
		for i, e := range batch {
			if consecutive && !w.pause() {
				return
			}
			consecutive = true
			select {
			case w.result <- e:
				batch[i].Object = nil
				w.unread.Add(-1)
			case <-w.stop:
				return
			}
		}
		if len(batch) > 0 {
			continue
		}
		if ended {
			return
		}
		consecutive = false
		select {
		case <-w.wake:
		case <-w.stop:
			return
		}
	}
}

// pause waits for Cache.Pace. It returns false if the watch is stopped.
func (w *watcher) pause() bool {
	if w.cache.Pace == 0 {
		return true
	}
	select {
	case <-time.After(w.cache.Pace):
		return true
	case <-w.stop:
		return false
	}
}
