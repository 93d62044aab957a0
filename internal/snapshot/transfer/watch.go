package transfer

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// watchPause is the pause after a watch that failed, or that ended without an event.
const watchPause = time.Second

// watch queues the events of a source until the context ends. It continues after the last event, and lists again if the API server
// has compacted that revision.
func (r *recorder) watch(ctx context.Context, s *source) {
	failing := false
	for {
		began, before := time.Now(), s.revision
		err := r.watchOnce(ctx, s)
		if ctx.Err() != nil {
			return
		}
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			r.saver.Warn("the watch of %s expired; changes since its last event are recorded as one change of each object, at a later time", s.GroupResource())
			if err = r.listAgain(ctx, s); err == nil {
				continue
			}
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && (s.revision != before || time.Since(began) > watchPause):
			failing = false
			continue
		case apierrors.IsForbidden(err), apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
			r.saver.Warn("changes of %s are no longer recorded: %v", s.GroupResource(), err)
			return
		case err != nil && !failing:
			failing = true
			r.saver.Warn("the watch of %s failed, and is tried again: %v", s.GroupResource(), err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchPause):
		}
	}
}

// watchOnce queues the events of one watch request until it ends.
func (r *recorder) watchOnce(ctx context.Context, s *source) error {
	opts := s.selection
	opts.Limit = 0
	opts.ResourceVersion, opts.AllowWatchBookmarks = s.revision, true
	w, err := s.client.Watch(ctx, opts)
	r.setOpened(s)
	if err != nil {
		return err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if e.Type == watch.Error {
			return apierrors.FromObject(e.Object)
		}
		obj, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		s.revision = obj.GetResourceVersion()
		if e.Type != watch.Bookmark {
			r.add(event{source: s, revision: revisionOf(s.revision), object: obj, deleted: e.Type == watch.Deleted})
		}
	}
	return nil
}

// listAgain queues the objects of a source as they are now.
func (r *recorder) listAgain(ctx context.Context, s *source) error {
	opts := s.selection
	list, revision := map[types.NamespacedName]*unstructured.Unstructured{}, ""
	for {
		page, err := s.client.List(ctx, opts)
		if token := expired(err); token != "" && token != opts.Continue {
			opts.Continue = token
			continue
		}
		if err != nil {
			return err
		}
		for i := range page.Items {
			list[nameOf(&page.Items[i])] = &page.Items[i]
		}
		if revision == "" {
			revision = page.GetResourceVersion()
		}
		if opts.Continue = page.GetContinue(); opts.Continue == "" {
			s.revision = revision
			r.add(event{source: s, revision: revisionOf(revision), list: list})
			return nil
		}
	}
}
