package stages

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
	"github.com/rehearse-k8s/rehearse/stage"
)

// kindWatches are the watches of the kinds of stages, except pods and nodes, which are always watched.
type kindWatches struct {
	mu      sync.Mutex
	stopped bool
	running map[stage.Kind]*kindWatch
	work    sync.WaitGroup
}

type kindWatch struct {
	cancel context.CancelFunc
	done   chan struct{}
	found  atomic.Int32
}

// The states of a kind: the engine looks for it; the API serves it, or cannot be asked at the moment; or the
// API does not serve it, and the engine waits for it.
const (
	kindLookedFor int32 = iota
	kindServed
	kindAbsent
)

// watchKinds starts to watch kinds that now have stages, and stops watching those that have none any more.
func (e *StageEngine) watchKinds(ctx context.Context, set *stage.Set) {
	w := e.kinds
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	wanted := map[stage.Kind]bool{}
	for _, kind := range set.Kinds() {
		if kind == stage.KindPod || kind == stage.KindNode {
			continue
		}
		wanted[kind] = true
		if w.running[kind] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		k := &kindWatch{cancel: cancel, done: make(chan struct{})}
		w.running[kind] = k
		w.work.Go(func() {
			defer close(k.done)
			e.watchKind(ctx, kind, k)
		})
	}
	for kind, k := range w.running {
		if !wanted[kind] {
			k.cancel()
			<-k.done
			delete(w.running, kind)
			e.table.forgetKind(e.options.Clock.Now(), kind)
		}
	}
}

// found returns the state of a kind that the engine watches.
func (w *kindWatches) found(kind stage.Kind) int32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := w.running[kind]; k != nil {
		return k.found.Load()
	}
	return kindServed
}

// stop stops all watches.
func (w *kindWatches) stop() {
	w.mu.Lock()
	w.stopped = true
	for _, k := range w.running {
		k.cancel()
	}
	w.mu.Unlock()
	w.work.Wait()
}

// The wait between attempts to find a kind.
const (
	lookFirst = 250 * time.Millisecond
	lookMost  = 10 * time.Second
)

// watchKind watches one kind into the table until ctx ends. It waits for a kind that the API does not have:
// its definition may be created after its stages, or be deleted and created again.
func (e *StageEngine) watchKind(ctx context.Context, kind stage.Kind, k *kindWatch) {
	for wait := lookFirst; ; wait = min(2*wait, lookMost) {
		at, ok := e.findKind(ctx, kind, k)
		if !ok {
			return
		}
		began := e.options.Clock.Now()
		if !e.watchKindAt(ctx, kind, at) {
			return
		}
		e.mapper.Reset()
		now := e.options.Clock.Now()
		e.table.forgetKind(now, kind)
		if now.Sub(began) > lookMost { // the kind was served
			wait = lookFirst
		}
		if !pause(ctx, e.options.Clock, wait) {
			return
		}
	}
}

// findKind waits until the API serves a kind; ok is false if ctx ends before. The status of the kind's stages
// shows whether it is served.
func (e *StageEngine) findKind(ctx context.Context, kind stage.Kind, k *kindWatch) (place, bool) {
	for wait := lookFirst; ; wait = min(2*wait, lookMost) {
		at, err := e.placeOf(kind)
		known := kindServed
		if meta.IsNoMatchError(err) {
			known = kindAbsent
		}
		if k.found.Swap(known) != known {
			notify(e.stagesWake)
		}
		if err == nil {
			return at, true
		}
		e.options.Logger.Debug("kind not found, will be looked for again", "kind", kind.String(), "error", err)
		if !pause(ctx, e.options.Clock, wait) {
			return place{}, false
		}
	}
}

// watchKindAt watches a kind at a place until ctx ends, or until the API does not serve it there any more,
// which it reports.
func (e *StageEngine) watchKindAt(ctx context.Context, kind stage.Kind, at place) (gone bool) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var nothing atomic.Bool
	seen := func(err error) {
		if noResource(err) {
			nothing.Store(true)
			stop()
		}
	}
	client := e.dynamic.Resource(at.resource)
	w, err := e.informer(&unstructured.Unstructured{}, kind, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			reconcile.Consistent(&o)
			list, err := client.List(ctx, o)
			seen(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := client.Watch(ctx, o)
			seen(err)
			return w, err
		},
	})
	if err != nil {
		e.options.Logger.Error("kind cannot be watched", "kind", kind.String(), "error", err)
		return false
	}
	defer e.audited(kind, at, w, "")()
	w.informer.RunWithContext(ctx)
	return nothing.Load()
}

// pause waits, and reports whether ctx has not ended.
func pause(ctx context.Context, c clock.Clock, d time.Duration) bool {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}
