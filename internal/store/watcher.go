package store

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// resultBuffer is how many events may wait in the channel that a watch's reader
// takes them from, as many as etcd3's watch has room for.
const resultBuffer = 100

// watcher is one watch. Writes push changes into its queue; one goroutine takes
// them out, turns them into events and sends those.
type watcher struct {
	objects   *objects
	world     *World
	key       string
	recursive bool
	cache     bool // it is the watch cache's
	progress  bool // bookmarks of the store are wanted
	after     int64
	selector  selector
	probe     *Probe // nil: no counting

	ctx    context.Context
	cancel context.CancelFunc
	result chan watch.Event
	signal chan struct{} // something is in the queue

	mu       sync.Mutex
	queue    []notice // first what the watch began with, then what happened since
	starting bool     // what is pushed now is what the watch begins with
	initial  int      // how many in the queue are that; a slow reader is not to blame
	known    int64    // everything up to here has been delivered to the reader
	ended    bool     // nothing more is taken in
}

// notice is a change in a watcher's queue. With a probe it is turned into an event
// when it is pushed, otherwise when it is taken out.
type notice struct {
	*change
	event *watch.Event
}

// push queues a change. The world's lock is held, shared at least, so that changes
// come in the order of their revisions.
func (w *watcher) push(c *change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.ended:
	case c.kind == written && c.rev <= w.after, c.kind == progressed && c.rev < w.after:
		// The watch begins later, perhaps at a revision still to come.
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

// overflow ends a watch whose reader is too far behind: it is told so instead of
// being sent what is in the queue.
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

// Stop implements watch.Interface. The channel is closed soon after.
func (w *watcher) Stop() {
	w.leave()
	w.cancel()
}

// leave takes the watch out of the world; nothing is pushed any more.
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

// send sends the event of one notice, if it has one, and reports whether the watch
// goes on.
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

// selector is a predicate that knows whether it selects everything.
type selector struct {
	predicate storage.SelectionPredicate
	all       bool
}
