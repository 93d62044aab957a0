package apiserver

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
)

// maxBufferedEvents is the number of events of one watch that may wait for its reader. They are pointers to objects that the watch
// cache contains anyway. Initial events do not count: they are created when the reader receives them.
const maxBufferedEvents = 50_000

// resultEvents is the number of events that the reader finds in its channel without waiting for the goroutine of the watch. Upstream's handler
// flushes its connection whenever the channel is empty. If the channel is empty after each event, each event costs a packet, a write of the TLS
// connection and several goroutine switches (docs/design/performance.md). The watches of Services and PersistentVolumeClaims still do: upstream puts a
// watch without such a buffer around ours (registry.Store.Decorator).
const resultEvents = 100

// bufferedWatch delivers the events of a watch in order, and buffers new ones while its reader is busy.
type bufferedWatch struct {
	source watch.Interface
	// initial are the events before those of the source, or nil.
	initial *initialEvents
	// at is the revision up to which the events are complete. restart opens a new source after it.
	at      string
	restart func(revision string) (watch.Interface, error)
	// limit is the number of events of the source that may wait for the reader.
	limit int
	// revision returns the storage's revision, 0 if it is unknown; nil: it is always unknown.
	revision func() uint64
	// emptyRestarts counts the sources in a row that ended without an event, and checkedAt is the storage's revision when
	// they last were maxEmptyRestarts.
	emptyRestarts int
	checkedAt     uint64
	result        chan watch.Event
	stop          chan struct{}
}

// maxEmptyRestarts is the number of sources in a row that may end without an event before the watch ends, unless the storage
// was written to in the meantime.
const maxEmptyRestarts = 20

// newBufferedWatch starts a watch whose channel holds up to ready events. It also ends with the context: upstream's handler does not stop a watch whose
// encoding it rejects, such as YAML.
func newBufferedWatch(ctx context.Context, source watch.Interface, at string, initial *initialEvents, restart func(revision string) (watch.Interface, error), revision func() uint64, limit, ready int) *bufferedWatch {
	w := &bufferedWatch{source: source, initial: initial, at: at, restart: restart, revision: revision, limit: limit, result: make(chan watch.Event, ready), stop: make(chan struct{}, 1)}
	go w.run(ctx)
	return w
}

// ResultChan implements watch.Interface.
func (w *bufferedWatch) ResultChan() <-chan watch.Event { return w.result }

// Stop implements watch.Interface.
func (w *bufferedWatch) Stop() {
	select {
	case w.stop <- struct{}{}:
	default:
	}
}

func (w *bufferedWatch) run(ctx context.Context) {
	defer close(w.result)
	defer func() { w.source.Stop() }()
	in := w.source.ResultChan()
	var queue []watch.Event
	first, starting := w.initial.next()
	for in != nil || starting || len(queue) > 0 {
		var out chan watch.Event
		switch {
		case starting:
			out = w.result
		case len(queue) > 0:
			out, first = w.result, queue[0]
		}
		select {
		case e, ok := <-in:
			switch {
			case !ok:
				in = w.resume()
				continue
			case len(queue) >= w.limit:
				in = nil // the queued events are sent before the watch ends
				w.source.Stop()
				continue
			}
			w.note(e)
			queue = append(queue, e)
		case out <- first:
			if starting {
				first, starting = w.initial.next()
				continue
			}
			queue[0] = watch.Event{}
			if queue = queue[1:]; len(queue) == 0 {
				queue = nil // release the memory of a burst
			}
		case <-w.stop:
			return
		case <-ctx.Done():
			return
		}
	}
}

// note records the revision of an event of the source.
func (w *bufferedWatch) note(e watch.Event) {
	w.emptyRestarts = 0
	if e.Type == watch.Error {
		w.restart = nil // an ERROR event ends the watch
		return
	}
	if o, err := meta.Accessor(e.Object); err == nil {
		w.at = o.GetResourceVersion()
	}
}

// resume opens a new source where the last one ended, and returns nil if that is impossible.
func (w *bufferedWatch) resume() <-chan watch.Event {
	w.source.Stop()
	if w.restart == nil || w.emptyRestarts == maxEmptyRestarts && !w.written() {
		return nil
	}
	w.emptyRestarts++
	source, err := w.restart(w.at)
	if err != nil {
		return nil // the reader's next request gets the error
	}
	w.source = source
	return source.ResultChan()
}

// written reports whether the storage was written to since the last call, and if so, allows further empty restarts. In a burst
// of writes, the cache also ends the watches whose selector matches none of them; these have no event to show for it.
func (w *bufferedWatch) written() bool {
	if w.revision == nil {
		return false
	}
	now := w.revision()
	if now <= w.checkedAt {
		return false
	}
	w.checkedAt, w.emptyRestarts = now, 0
	return true
}

// failedWatch is a watch that sends one ERROR event and ends.
func failedWatch(err error) watch.Interface {
	events := make(chan watch.Event, 1)
	events <- watch.Event{Type: watch.Error, Object: statusOf(err)}
	close(events)
	return watch.NewProxyWatcher(events)
}
