package store

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// resultBuffer is the capacity of a watch's result channel, the same as in etcd3's watch.
const resultBuffer = 100

// watcher is one watch. Writes push changes into its queue; one goroutine takes them from the
// queue, converts them to events and sends these.
type watcher struct {
	objects   *objects
	world     *World
	key       string
	recursive bool
	cache     bool // whether the reader is a watch cache: it modifies no object
	progress  bool // whether the reader requested bookmarks of the store
	after     int64
	selector  selector
	probe     *Probe // nil: no counting

	ctx    context.Context
	cancel context.CancelFunc
	result chan watch.Event
	signal chan struct{} // the queue is not empty

	mu       sync.Mutex
	queue    []notice // first the initial notices, then the changes since
	starting bool     // whether pushed notices are initial ones
	initial  int      // the number of initial notices in the queue; they do not count as lag of a slow reader
	known    int64    // everything up to here has been delivered to the reader
	ended    bool     // nothing more is queued
}

// notice is a change in a watcher's queue. With a probe it is converted to an event when it is
// pushed, otherwise when it is taken.
type notice struct {
	*change
	event *watch.Event
}

// push queues a change. The caller holds the world's lock, at least for reading, so that changes
// are queued in the order of their revisions.
func (w *watcher) push(c *change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.ended:
	case c.kind == written && c.rev <= w.after, c.kind == progressed && c.rev < w.after:
		// The watch starts at a later revision, perhaps one in the future.
	case c.kind != failed && !w.starting && len(w.queue)-w.initial >= w.objects.worlds.queueLimit:
		w.overflow()
	default:
		w.enqueue(c)
		if c.kind != written || w.selector.all {
			w.known = max(w.known, c.rev)
		}
	}
}

// enqueue puts a change into the queue and counts it.
func (w *watcher) enqueue(c *change) {
	n := notice{change: c}
	if w.probe != nil {
		w.probe.pushed.Add(1)
		event, err := w.event(c)
		switch {
		case err != nil:
			n.change = &change{kind: failed, err: err}
		case event == nil:
			w.probe.filtered.Add(1)
			return
		default:
			n.event = event
		}
	}
	w.ended = n.kind == failed
	w.queue = append(w.queue, n)
	if w.starting {
		w.initial++
	}
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// overflow ends a watch whose reader is too slow: instead of the queued events it is sent an error.
func (w *watcher) overflow() {
	if w.probe != nil {
		w.probe.filtered.Add(int64(len(w.queue)))
	}
	w.queue, w.initial = nil, 0
	w.enqueue(&change{kind: failed, err: errTooFarBehind()})
}

// knows reports whether everything up to rev has been delivered to the reader.
func (w *watcher) knows(rev int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known >= rev
}

// take moves the front of the queue into batch.
func (w *watcher) take(batch []notice) []notice {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := copy(batch[:cap(batch)], w.queue)
	clear(w.queue[:n])
	w.initial = max(w.initial-n, 0)
	if w.queue = w.queue[n:]; len(w.queue) == 0 {
		w.queue = nil
	}
	return batch[:n]
}

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.result }

// Stop implements watch.Interface. The channel is closed soon afterwards.
func (w *watcher) Stop() {
	w.leave()
	w.cancel()
}

// leave removes the watch from the world, so that nothing more is pushed.
func (w *watcher) leave() {
	w.world.mu.Lock()
	defer w.world.mu.Unlock()
	w.world.watchers.remove(w)
}

// run sends events until the watch is stopped or fails.
func (w *watcher) run() {
	defer close(w.result)
	defer w.Stop()
	batch := make([]notice, 0, 64)
	for {
		batch = w.take(batch)
		for _, n := range batch {
			if !w.send(n) {
				return
			}
		}
		clear(batch)
		if len(batch) > 0 {
			continue
		}
		select {
		case <-w.ctx.Done():
			return
		case <-w.signal:
		}
	}
}

// send sends the event of one notice, if it has one, and reports whether the watch continues.
func (w *watcher) send(n notice) bool {
	if w.ctx.Err() != nil {
		return false
	}
	event := n.event
	if event == nil {
		var err error
		if event, err = w.event(n.change); err != nil {
			if w.ctx.Err() != nil {
				return false // the reader has stopped the watch: not an error to report
			}
			event = errorEvent(err)
		}
		if event == nil {
			return true
		}
	}
	select {
	case w.result <- *event:
	case <-w.ctx.Done():
		return false
	}
	if w.probe != nil {
		w.probe.sent.Add(1)
	}
	return event.Type != watch.Error
}

// selector is a predicate that also records whether it selects everything.
type selector struct {
	predicate storage.SelectionPredicate
	all       bool
}
