package store

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
)

// Watch implements storage.Interface. Errors after the arguments have been validated (a compacted
// or future revision, an unreadable object) are sent as an error event, after which the channel is
// closed.
func (s *objects) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	key, err := s.key(key, opts.Recursive)
	if err != nil {
		return nil, err
	}
	rv, err := s.versioner.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if opts.ProgressNotify && s.newFunc == nil {
		return nil, apierrors.NewInternalError(errors.New("store: no progress notifications without a NewFunc"))
	}
	w := s.newWatcher(ctx, key, opts)
	w.begin(int64(rv), planOf(int64(rv), opts))
	go w.run()
	utilflowcontrol.WatchInitialized(ctx)
	return w, nil
}

func (s *objects) newWatcher(ctx context.Context, key string, opts storage.ListOptions) *watcher {
	w := &watcher{
		objects:   s,
		world:     s.world(ctx),
		key:       key,
		recursive: opts.Recursive,
		selector:  newSelector(opts.Predicate),
		probe:     probeFrom(ctx),
		result:    make(chan watch.Event, resultBuffer),
		signal:    make(chan struct{}, 1),
	}
	// Only the watch cache and readers like it, which modify nothing, request this.
	w.cache = opts.ProgressNotify
	// A run's world has no watch cache that would create bookmarks for clients.
	w.progress = w.cache || w.world.identity != nil && opts.Predicate.AllowWatchBookmarks && s.newFunc != nil
	w.ctx, w.cancel = context.WithCancel(ctx)
	return w
}

// plan is how a watch starts.
type plan struct {
	initial  bool // with the existing objects, as ADDED events
	bookmark bool // with a bookmark after the existing objects
	present  bool // otherwise: from the current revision, not from a given one
}

// planOf derives the plan from the options like etcd3's watch. Without the WatchList feature,
// sendInitialEvents is ignored.
func planOf(rv int64, opts storage.ListOptions) plan {
	send := opts.SendInitialEvents
	if send == nil {
		return plan{initial: rv == 0}
	}
	if !utilfeature.DefaultFeatureGate.Enabled(features.WatchList) {
		return plan{}
	}
	if *send {
		return plan{initial: true, bookmark: opts.Predicate.AllowWatchBookmarks}
	}
	return plan{present: rv == 0}
}

// begin fills the queue with the initial notices and registers the watch in the world under one
// lock, so that no write is missed between the two.
func (w *watcher) begin(rv int64, p plan) {
	world := w.world
	world.mu.Lock()
	defer world.mu.Unlock()
	w.starting = true
	switch {
	case world.closed:
		w.cancel()
		return
	case p.initial && rv > world.rev:
		w.push(&change{kind: failed, err: errFutureWatch(rv, world.rev)})
	case p.initial:
		w.pushFound(p.bookmark)
		w.after = world.rev
	case p.present:
		w.after = world.rev
	case rv < world.compacted:
		w.push(&change{kind: failed, err: errWatchTooOld()})
	default:
		w.after, w.known = rv, rv
		w.pushSince(rv)
	}
	// A reader may wait for a revision of another resource that was reached before this watch
	// began. Without this notice it would learn of it only with the next progress request.
	if w.progress && world.rev > w.known && world.identity == nil {
		w.push(&change{kind: progressed, rev: world.rev})
	}
	w.starting = false
	world.watchers.add(w)
}

// pushFound queues the existing objects.
func (w *watcher) pushFound(bookmark bool) {
	end := ""
	if w.recursive {
		end = prefixEnd(w.key)
	}
	all, _ := w.world.spanLocked(w.key, end, newestRevision, 0, false)
	for _, f := range all {
		w.push(&change{kind: found, key: f.key, rev: f.rev, cur: f.version})
	}
	if bookmark {
		w.push(&change{kind: initialEnd, rev: w.world.rev})
	}
}

// pushSince queues the changes after rev that are in the history.
func (w *watcher) pushSince(rv int64) {
	for _, c := range w.world.log.since(rv) {
		if w.concerns(c.key) {
			w.push(c)
		}
	}
}

func (w *watcher) concerns(key string) bool {
	if w.recursive {
		return len(key) >= len(w.key) && key[:len(w.key)] == w.key
	}
	return key == w.key
}
