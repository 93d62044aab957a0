package stages

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// mostUnread is how many changes may wait for one reader of a feed. They are pointers to
// pods that most others have too.
const mostUnread = 100_000

// podWatch is one reader of a feed. It implements watch.Interface.
type podWatch struct {
	feed   *PodFeed
	keep   func(*corev1.Pod) bool
	result chan watch.Event
	stop   chan struct{}
	once   sync.Once
	wake   chan struct{} // there is something new
	unread atomic.Int64
	most   int64 // that may be unread; what was there at the beginning comes on top

	mu    sync.Mutex
	queue []watch.Event
	ended bool // nothing more comes after queue
}

func newPodWatch(f *PodFeed, keep func(*corev1.Pod) bool) *podWatch {
	return &podWatch{feed: f, keep: keep, result: make(chan watch.Event), stop: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// begin hands out events until ctx ends.
func (w *podWatch) begin(ctx context.Context) {
	w.most = mostUnread + int64(len(w.queue))
	w.unread.Store(int64(len(w.queue)))
	unhook := context.AfterFunc(ctx, w.Stop)
	go func() {
		defer close(w.result) // who sees the end is forgotten already
		defer w.feed.forget(w)
		defer unhook()
		w.run()
	}()
}

// ResultChan implements watch.Interface.
func (w *podWatch) ResultChan() <-chan watch.Event { return w.result }

// Stop implements watch.Interface.
func (w *podWatch) Stop() { w.once.Do(func() { close(w.stop) }) }

// take queues what a change is for this reader, and never waits.
func (w *podWatch) take(c podChange) {
	if e, ok := w.event(c); ok {
		w.queued(e)
	}
}

func (w *podWatch) queued(e watch.Event) {
	w.mu.Lock()
	if !w.ended {
		if w.unread.Add(1) > w.most {
			w.ended = true // it begins again after the last one it saw, or with all pods
		} else {
			w.queue = append(w.queue, e)
		}
	}
	w.mu.Unlock()
	poke(w.wake)
}

// event is a change as seen through keep.
func (w *podWatch) event(c podChange) (e watch.Event, ok bool) {
	was, is := c.was != nil && w.keep(c.was), !c.deleted && w.keep(c.is)
	switch {
	case was && is:
		return watch.Event{Type: watch.Modified, Object: c.is}, true
	case is:
		return watch.Event{Type: watch.Added, Object: c.is}, true
	case was && c.deleted:
		return watch.Event{Type: watch.Deleted, Object: c.is}, true
	case was: // as the API shows one that a selector matches no longer
		gone := *c.was
		gone.ResourceVersion = c.is.ResourceVersion
		return watch.Event{Type: watch.Deleted, Object: &gone}, true
	}
	return e, false
}

// sees reports whether a change is one for this reader.
func (w *podWatch) sees(c podChange) bool {
	_, ok := w.event(c)
	return ok
}

// expire ends the watch with an error that says that the reader has to list again.
func (w *podWatch) expire(revision uint64) {
	w.mu.Lock()
	if !w.ended {
		status := expired(revision).Status()
		w.queue, w.ended = []watch.Event{{Type: watch.Error, Object: &status}}, true
	}
	w.mu.Unlock()
	poke(w.wake)
}

func (w *podWatch) run() {
	for together := false; ; {
		w.mu.Lock()
		batch, ended := w.queue, w.ended
		w.queue = nil
		w.mu.Unlock()
		for i, e := range batch {
			if together && !w.pause() {
				return
			}
			together = true
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
		together = false
		select {
		case <-w.wake:
		case <-w.stop:
			return
		}
	}
}

// pause waits for the feed's pace. It returns false if the watch is stopped.
func (w *podWatch) pause() bool {
	if w.feed.Pace == 0 {
		return true
	}
	select {
	case <-time.After(w.feed.Pace):
		return true
	case <-w.stop:
		return false
	}
}
