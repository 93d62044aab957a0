package apiserver

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
)

// maxPatience is how many events of one watch may wait for its reader. They are
// pointers to objects that the watch cache holds anyway. The events that a watch
// starts with do not count: they are made when the reader takes them.
const maxPatience = 50_000

// patientWatch delivers the events of a watch in their order, and takes new ones
// while its reader is busy.
type patientWatch struct {
	source watch.Interface
	// initial are the events that come before those of the source; nil: none.
	initial *initialEvents
	// at is the revision up to which the reader's events are complete. again begins
	// a source after it.
	at    string
	again func(revision string) (watch.Interface, error)
	// limit is how many events of the source may wait for the reader.
	limit int
	// vain counts the sources in a row that have ended without any event.
	vain   int
	result chan watch.Event
	stop   chan struct{}
}

// mostVain is how many times in a row a source may end without an event before the
// watch ends.
const mostVain = 20

func newPatientWatch(source watch.Interface, at string, initial *initialEvents, again func(revision string) (watch.Interface, error), limit int) *patientWatch {
	w := &patientWatch{source: source, initial: initial, at: at, again: again, limit: limit, result: make(chan watch.Event), stop: make(chan struct{}, 1)}
	go w.run()
	return w
}

// ResultChan implements watch.Interface.
func (w *patientWatch) ResultChan() <-chan watch.Event { return w.result }

// Stop implements watch.Interface.
func (w *patientWatch) Stop() {
	select {
	case w.stop <- struct{}{}:
	default:
	}
}

func (w *patientWatch) run() {
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
				in = nil // what is queued is still true, and is sent first
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
				queue = nil // a burst must not keep its memory
			}
		case <-w.stop:
			return
		}
	}
}

// note records the revision of an event of the source.
func (w *patientWatch) note(e watch.Event) {
	w.vain = 0
	if e.Type == watch.Error {
		w.again = nil // it says why this is the end
		return
	}
	if o, err := meta.Accessor(e.Object); err == nil {
		w.at = o.GetResourceVersion()
	}
}

// resume begins a new source where the last one has ended, and returns nil if that
// is impossible.
func (w *patientWatch) resume() <-chan watch.Event {
	w.source.Stop()
	if w.again == nil || w.vain == mostVain {
		return nil
	}
	w.vain++
	source, err := w.again(w.at)
	if err != nil {
		return nil // the reader's next request gets the error
	}
	w.source = source
	return source.ResultChan()
}

// failedWatch is a watch that sends one ERROR event and ends.
func failedWatch(err error) watch.Interface {
	events := make(chan watch.Event, 1)
	events <- watch.Event{Type: watch.Error, Object: statusOf(err)}
	close(events)
	return watch.NewProxyWatcher(events)
}
