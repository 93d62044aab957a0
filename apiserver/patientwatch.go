package apiserver

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// maxPatience is how many events of one watch may wait for its reader. They are
// pointers to objects that the watch cache holds anyway.
const maxPatience = 50_000

// patient puts a queue between the watch cache and each watch's reader.
//
// Upstream's cache gives a watch room for ten events and ends it when its reader
// has made the cache wait for 50 ms in a second. On one machine that also runs
// the readers, a burst of writes ends watches by the dozen: each reader starts
// again, is sent its history once more, copied object by object, after a pause of
// a second. With the queue a watch falls behind for a moment instead. And because the
// goroutines between the cache and the queue may wait for a processor longer than that
// too, a watch that the cache has ended goes on from its last event: of that its reader
// sees nothing. A reader who is behind by more than maxPatience is ended as upstream ends
// it: it starts again from the last event it saw.
func patient(d generic.StorageDecorator) generic.StorageDecorator {
	return func(c *storagebackend.ConfigForResource, prefix string, keyFunc func(runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object, attrs storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		s, destroy, err := d(c, prefix, keyFunc, newFunc, newListFunc, attrs, triggers, indexers)
		if err != nil {
			return nil, nil, err
		}
		return patientStorage{s}, destroy, nil
	}
}

type patientStorage struct{ storage.Interface }

// Watch implements storage.Interface.
func (s patientStorage) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	w, err := s.Interface.Watch(ctx, key, o)
	if err != nil {
		return nil, err
	}
	at, told := o.ResourceVersion, o.SendInitialEvents != nil && *o.SendInitialEvents
	if o.ResourceVersion == "0" || told {
		at = ""
	}
	return newPatientWatch(w, at, told, func(revision string) (watch.Interface, error) {
		o := o
		o.ResourceVersion, o.ResourceVersionMatch, o.SendInitialEvents = revision, "", nil
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return s.Interface.Watch(ctx, key, o)
	}), nil
}

// patientWatch hands the events of a watch on, in their order, and takes new ones
// while its reader is busy.
type patientWatch struct {
	source watch.Interface
	// at is the revision up to which all has come, "" while nobody can tell: objects that
	// were there before the watch come in no order. again begins after it.
	at    string
	again func(revision string) (watch.Interface, error)
	// told says that a bookmark is to tell when those that were there have come: a watch that
	// is begun again would not bring it.
	told bool
	// vain counts the sources in a row that have ended without any event.
	vain   int
	result chan watch.Event
	stop   chan struct{}
}

// mostVain is how many times a watch is begun again and ends at once before its reader is
// told.
const mostVain = 20

func newPatientWatch(source watch.Interface, at string, told bool, again func(revision string) (watch.Interface, error)) *patientWatch {
	w := &patientWatch{source: source, at: at, told: told, again: again, result: make(chan watch.Event), stop: make(chan struct{}, 1)}
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
	for in != nil || len(queue) > 0 {
		var out chan watch.Event
		var first watch.Event
		if len(queue) > 0 {
			out, first = w.result, queue[0]
		}
		select {
		case e, ok := <-in:
			switch {
			case !ok:
				in = w.goOn()
				continue
			case len(queue) >= maxPatience:
				in = nil // what is queued is still true, and is sent first
				w.source.Stop()
				continue
			}
			w.note(e)
			queue = append(queue, e)
		case out <- first:
			queue[0] = watch.Event{}
			if queue = queue[1:]; len(queue) == 0 {
				queue = nil // a burst must not keep its memory
			}
		case <-w.stop:
			return
		}
	}
}

// note keeps how far an event has brought the watch.
func (w *patientWatch) note(e watch.Event) {
	w.vain = 0
	if e.Type == watch.Error {
		w.again = nil // it says why this is the end
		return
	}
	if w.at == "" && (e.Type == watch.Added || w.told && e.Type != watch.Bookmark) {
		return // it may have been there before
	}
	if o, err := meta.Accessor(e.Object); err == nil {
		w.at = o.GetResourceVersion()
	}
}

// goOn begins again where the source has ended, and returns nil if that cannot be.
func (w *patientWatch) goOn() <-chan watch.Event {
	w.source.Stop()
	if w.at == "" || w.again == nil || w.vain == mostVain {
		return nil
	}
	w.vain++
	source, err := w.again(w.at)
	if err != nil {
		return nil // who asks for it is told
	}
	w.source = source
	return source.ResultChan()
}
