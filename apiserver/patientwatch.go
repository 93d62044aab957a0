package apiserver

import (
	"context"

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
// a second. With the queue a watch falls behind for a moment instead. A reader who
// is behind by more than maxPatience is ended as upstream ends it: it starts again
// from the last event it saw.
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
	return newPatientWatch(w), nil
}

// patientWatch hands the events of a watch on, in their order, and takes new ones
// while its reader is busy.
type patientWatch struct {
	source watch.Interface
	result chan watch.Event
	stop   chan struct{}
}

func newPatientWatch(source watch.Interface) *patientWatch {
	w := &patientWatch{source: source, result: make(chan watch.Event), stop: make(chan struct{}, 1)}
	go w.run()
	return w
}

// ResultChan implements watch.Interface.
func (w *patientWatch) ResultChan() <-chan watch.Event { return w.result }

// Stop implements watch.Interface.
func (w *patientWatch) Stop() {
	w.source.Stop()
	select {
	case w.stop <- struct{}{}:
	default:
	}
}

func (w *patientWatch) run() {
	defer close(w.result)
	defer w.source.Stop()
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
			if !ok || len(queue) >= maxPatience {
				in = nil // what is queued is still true, and is sent first
				w.source.Stop()
				continue
			}
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
