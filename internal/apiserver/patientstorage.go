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

// patient puts a queue between the watch cache and each watch's reader.
//
// Upstream's cache gives a watch room for ten events and ends it when its reader
// has made the cache wait for 50 ms in a second. On one machine that also runs
// the readers, a burst of writes ends watches by the dozen: each reader starts
// again, is sent its history once more, copied object by object, after a pause of
// a second. With the queue a watch falls behind for a moment instead. And because the
// goroutines between the cache and the queue may wait for a processor longer than that
// too, a watch that the cache has ended continues after its last event: its reader
// does not notice. A reader who is behind by more than maxPatience is ended as upstream
// ends it: it starts again from the last event it saw.
//
// A watch that starts with the objects that exist would never finish so if these
// counted, or if the cache ended it while they are being sent: the reader has nothing
// yet that it could continue from, and starts again from nothing. So these objects come
// from a list, at the reader's pace, while the queue takes what changes after that list.
func patient(d generic.StorageDecorator) generic.StorageDecorator {
	return func(c *storagebackend.ConfigForResource, prefix string, keyFunc func(runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object, attrs storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		s, destroy, err := d(c, prefix, keyFunc, newFunc, newListFunc, attrs, triggers, indexers)
		if err != nil {
			return nil, nil, err
		}
		return patientStorage{s, newFunc, newListFunc, maxPatience}, destroy, nil
	}
}

type patientStorage struct {
	storage.Interface
	newFunc, newListFunc func() runtime.Object
	limit                int // maxPatience; lowered by tests
}

// Watch implements storage.Interface. What upstream answers within the stream (a
// revision from the future, an error of storage) is answered so here.
func (s patientStorage) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
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
	return newPatientWatch(source, o.ResourceVersion, initial, from, s.limit), nil
}

// start returns the events that the watch starts with, nil if it starts with none,
// and changes the options to those of a watch for what happens after them.
func (s patientStorage) start(ctx context.Context, key string, o *storage.ListOptions) (*initialEvents, error) {
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
	case send == nil: // older than WatchList: the cache as it is, whatever its age
		asked.ResourceVersion = "0"
		return s.list(ctx, key, asked, o)
	case exact:
		asked.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
		return s.list(ctx, key, asked, o)
	}
	asked.ResourceVersionMatch = ""
	return s.list(ctx, key, asked, o)
}

// list reads the objects that a watch starts with, and sets the revision of the list
// as the one that the watch goes on from.
func (s patientStorage) list(ctx context.Context, key string, asked storage.ListOptions, o *storage.ListOptions) (*initialEvents, error) {
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

// initialEnd makes the bookmark that ends the initial events.
func (s patientStorage) initialEnd(revision string) (runtime.Object, error) {
	end := s.newFunc()
	m, err := meta.Accessor(end)
	if err != nil {
		return nil, err
	}
	m.SetResourceVersion(revision)
	return end, storage.AnnotateInitialEventsEndBookmark(end)
}

// initialEvents are the events that a watch starts with.
type initialEvents struct {
	objects []runtime.Object
	end     runtime.Object // the bookmark after them; nil: none was asked for
}

// next returns the next event; ok is false after the last. An object of a list shares
// with the cache what lies behind its pointers, and an encoder may change an object for
// a moment, so each event gets a copy, which is made when its turn comes.
func (i *initialEvents) next() (e watch.Event, ok bool) {
	switch {
	case i == nil:
		return e, false
	case len(i.objects) > 0:
		e = watch.Event{Type: watch.Added, Object: i.objects[0].DeepCopyObject()}
		i.objects[0] = nil
		i.objects = i.objects[1:]
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
