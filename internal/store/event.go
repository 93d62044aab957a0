package store

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

func newSelector(p storage.SelectionPredicate) selector {
	all := p.Empty()
	if utilfeature.DefaultFeatureGate.Enabled(features.ShardedListAndWatch) && p.ShardSelector != nil {
		all = all && p.ShardSelector.Empty()
	}
	return selector{predicate: p, all: all}
}

func (s *selector) selects(obj runtime.Object) bool {
	if s.all {
		return true
	}
	ok, err := s.predicate.Matches(obj)
	return err == nil && ok
}

// event returns the event that this watch sends for a change; nil if its selector excludes the
// object.
func (w *watcher) event(c *change) (*watch.Event, error) {
	switch c.kind {
	case progressed, initialEnd:
		return w.bookmark(c)
	case failed:
		return errorEvent(c.err), nil
	case found:
		return w.ifSelected(watch.Added, c)
	}
	switch {
	case c.cur.dead:
		return w.ifSelectedBefore(c)
	case c.prev == nil:
		return w.ifSelected(watch.Added, c)
	case w.selector.all:
		return w.ifSelected(watch.Modified, c)
	}
	return w.modified(c)
}

// modified handles a change of an object that existed before and after: it may enter the selection,
// leave it, or stay in or outside.
func (w *watcher) modified(c *change) (*watch.Event, error) {
	cur, curShared, err := w.objects.object(w.ctx, c.key, c.cur)
	if err != nil {
		return nil, err
	}
	old, oldShared, err := w.objects.before(w.ctx, c)
	if err != nil {
		return nil, err
	}
	is, was := w.selector.selects(cur), w.selector.selects(old)
	switch {
	case is && was:
		return w.give(watch.Modified, cur, curShared), nil
	case is:
		return w.give(watch.Added, cur, curShared), nil
	case was:
		return w.give(watch.Deleted, old, oldShared), nil
	}
	return nil, nil
}

func (w *watcher) ifSelected(t watch.EventType, c *change) (*watch.Event, error) {
	obj, shared, err := w.objects.object(w.ctx, c.key, c.cur)
	if err != nil || !w.selector.selects(obj) {
		return nil, err
	}
	return w.give(t, obj, shared), nil
}

func (w *watcher) ifSelectedBefore(c *change) (*watch.Event, error) {
	obj, shared, err := w.objects.before(w.ctx, c)
	if err != nil {
		return nil, w.objects.corruptDelete(err)
	}
	if !w.selector.selects(obj) {
		return nil, nil
	}
	return w.give(watch.Deleted, obj, shared), nil
}

// give returns the event. Only a watch cache receives the shared object itself: it copies before
// it modifies. Every other reader encodes the object, and an encoder temporarily writes the kind
// into it, so these readers receive a shallow copy. An unstructured object consists of maps, which
// the readers of the cache share, so the cache receives a copy of it as well.
func (w *watcher) give(t watch.EventType, obj runtime.Object, shared bool) *watch.Event {
	if shared && (isMap(obj) || !w.cache) {
		obj = shallowCopy(obj)
	}
	return &watch.Event{Type: t, Object: obj}
}

func (w *watcher) bookmark(c *change) (*watch.Event, error) {
	if w.objects.newFunc == nil {
		return nil, errors.New("store: no bookmark without a NewFunc")
	}
	obj := w.objects.newFunc()
	if err := w.objects.versioner.UpdateObject(obj, uint64(c.rev)); err != nil {
		return nil, fmt.Errorf("store: bookmark: %w", err)
	}
	if c.kind == initialEnd {
		if err := storage.AnnotateInitialEventsEndBookmark(obj); err != nil {
			return nil, fmt.Errorf("store: bookmark: %w", err)
		}
	}
	return &watch.Event{Type: watch.Bookmark, Object: obj}, nil
}
