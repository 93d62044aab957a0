package apiserver

import (
	"context"
	"errors"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// withBufferedWatches adds a queue between the watch cache and the reader of each watch.
//
// Upstream's cache buffers ten events per watch, and ends a watch whose reader has blocked the cache for 50
// ms within a second. On one machine that also runs the readers, a burst of writes ends dozens of watches:
// each reader starts again after a second, and receives its history once more, copied object by object. With
// the queue, a watch only lags for a moment. The goroutines between the cache and the queue may wait for a
// processor longer than that too; therefore a watch that the cache ended continues after its last event, and
// its reader does not notice. A watch whose reader lags by more than maxBufferedEvents events ends as
// upstream ends it, and the reader starts again from the last event that it received.
//
// A watch with initial events would never complete if these counted, or if the cache ended it while they are
// sent: the reader has no revision to continue from, and starts from the beginning. Therefore the initial
// events come from a list, at the reader's speed, while the queue buffers the changes after that list.
func withBufferedWatches(d generic.StorageDecorator) generic.StorageDecorator {
	return func(c *storagebackend.ConfigForResource, prefix string, keyFunc func(runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object, attrs storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		s, destroy, err := d(c, prefix, keyFunc, newFunc, newListFunc, attrs, triggers, indexers)
		if err != nil {
			return nil, nil, err
		}
		return bufferedStorage{s, newFunc, newListFunc, maxBufferedEvents, resultEvents}, destroy, nil
	}
}

type bufferedStorage struct {
	storage.Interface
	newFunc, newListFunc func() runtime.Object
	limit                int // maxBufferedEvents; lowered by tests
	ready                int // resultEvents; lowered by tests
}

// Watch implements storage.Interface. Errors that upstream sends within the stream (a revision in the future, an error of the
// storage) are sent within the stream here too.
func (s bufferedStorage) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	initial, err := s.start(ctx, key, &o)
	switch {
	case apierrors.IsTooManyRequests(err): // the cache is not ready: upstream rejects the request
		return nil, err
	case err != nil:
		return failedWatch(err), nil
	}
	from := func(revision string) (watch.Interface, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		o := o
		o.ResourceVersion = revision
		return s.Interface.Watch(ctx, key, o)
	}
	source, err := from(o.ResourceVersion)
	if err != nil {
		return nil, err
	}
	revision := func() uint64 {
		now, err := s.GetCurrentResourceVersion(ctx)
		if err != nil {
			return 0
		}
		return now
	}
	return newBufferedWatch(ctx, source, o.ResourceVersion, initial, from, revision, s.limit, s.ready), nil
}

// start returns the initial events of the watch, nil if it has none, and changes the options to those of a watch for the
// changes after them.
func (s bufferedStorage) start(ctx context.Context, key string, o *storage.ListOptions) (*initialEvents, error) {
	asked := *o
	o.SendInitialEvents, o.ResourceVersionMatch = nil, ""
	exact := asked.ResourceVersion != "" && asked.ResourceVersion != "0"
	switch send := asked.SendInitialEvents; {
	case send == nil && exact, send != nil && !*send && exact:
		return nil, nil
	case send != nil && !*send:
		now, err := s.GetCurrentResourceVersion(ctx)
		o.ResourceVersion = strconv.FormatUint(now, 10)
		return nil, err
	case send == nil: // the form before WatchList: the cache at any revision
		asked.ResourceVersion = "0"
		return s.list(ctx, key, asked, o)
	case exact:
		asked.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
		return s.list(ctx, key, asked, o)
	}
	asked.ResourceVersionMatch = ""
	return s.list(ctx, key, asked, o)
}

// list reads the initial objects of a watch, and sets the revision of the list as the start of the watch.
func (s bufferedStorage) list(ctx context.Context, key string, asked storage.ListOptions, o *storage.ListOptions) (*initialEvents, error) {
	asked.Predicate.Limit, asked.Predicate.Continue = 0, ""
	marked := asked.SendInitialEvents != nil && asked.Predicate.AllowWatchBookmarks
	asked.SendInitialEvents = nil
	list := s.newListFunc()
	if err := s.GetList(ctx, key, asked, list); err != nil {
		return nil, err
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	o.ResourceVersion = m.GetResourceVersion()
	initial := &initialEvents{objects: objects}
	if marked {
		initial.end, err = s.initialEnd(o.ResourceVersion)
	}
	return initial, err
}

// initialEnd creates the bookmark that ends the initial events.
func (s bufferedStorage) initialEnd(revision string) (runtime.Object, error) {
	end := s.newFunc()
	m, err := meta.Accessor(end)
	if err != nil {
		return nil, err
	}
	m.SetResourceVersion(revision)
	return end, storage.AnnotateInitialEventsEndBookmark(end)
}

// initialEvents are the initial events of a watch.
type initialEvents struct {
	objects []runtime.Object
	end     runtime.Object // the bookmark after them, nil if it was not requested
}

// next returns the next event; ok is false after the last. The objects of a list share
// memory with the cache, and an encoder may modify an object temporarily. Therefore each event contains a copy, which is
// created when the event is sent.
func (i *initialEvents) next() (e watch.Event, ok bool) {
	switch {
	case i == nil:
		return e, false
	case len(i.objects) > 0:
		e = watch.Event{Type: watch.Added, Object: i.objects[0].DeepCopyObject()}
		i.objects[0] = nil
		if i.objects = i.objects[1:]; len(i.objects) == 0 {
			i.objects = nil // an empty slice would keep the whole array
		}
		return e, true
	case i.end != nil:
		e = watch.Event{Type: watch.Bookmark, Object: i.end}
		i.end = nil
		return e, true
	}
	return e, false
}

// statusOf is the object of an ERROR event.
func statusOf(err error) runtime.Object {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	return &status
}
