package controller

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/rehearse-k8s/rehearse/stage"
)

// kindWatches are the watches of the kinds that stages are for, pods and nodes
// apart, which are always watched.
type kindWatches struct {
	mu      sync.Mutex
	stopped bool
	running map[stage.Kind]*kindWatch
	work    sync.WaitGroup
}

type kindWatch struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// watchKinds begins to watch kinds that have stages now and stops watching those
// that have none any more.
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
			e.watchKind(ctx, kind)
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

// stop ends all of them.
func (w *kindWatches) stop() {
	w.mu.Lock()
	w.stopped = true
	for _, k := range w.running {
		k.cancel()
	}
	w.mu.Unlock()
	w.work.Wait()
}

// Waits between attempts to find what is not there yet.
const (
	lookFirst = 250 * time.Millisecond
	lookMost  = 10 * time.Second
)

// watchKind watches one kind into the table until ctx ends. A kind that the API
// does not have is waited for: its definition may come after its stages.
func (e *StageEngine) watchKind(ctx context.Context, kind stage.Kind) {
	var at place
	for wait := lookFirst; ; wait = min(2*wait, lookMost) {
		var err error
		if at, err = e.placeOf(kind); err == nil {
			break
		}
		e.options.Logger.Debug("kind not found, will be looked for again", "kind", kind.String(), "error", err)
		if !pause(ctx, e.options.Clock, wait) {
			return
		}
	}
	client := e.dynamic.Resource(at.resource)
	w, err := e.informer(&unstructured.Unstructured{}, kind, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, consistent(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, o)
		},
	})
	if err != nil {
		e.options.Logger.Error("kind cannot be watched", "kind", kind.String(), "error", err)
		return
	}
	w.informer.RunWithContext(ctx)
}

// pause waits, and reports whether ctx is still on.
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
