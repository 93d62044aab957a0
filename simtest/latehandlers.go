package simtest

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// client-go passes the cached objects to a handler that is added after the cache has synced in the order of a Go map, which
// no seed determines. The informers of a manager's cache pass them in the order of their keys.

// sortInitialEvents returns an informer whose late handlers receive the cached objects in the order of their keys. It implements
// SharedIndexInformer if i does.
func (w *World) sortInitialEvents(i cache.Informer, name string) cache.Informer {
	own := lateHandlers{Informer: i, world: w, name: name}
	if shared, ok := i.(toolscache.SharedIndexInformer); ok {
		return &sharedLateHandlers{SharedIndexInformer: shared, lateHandlers: own}
	}
	return &own
}

// lateHandlers is an informer that sorts the initial events of handlers that are added after it has synced.
type lateHandlers struct {
	cache.Informer
	world *World
	name  string
}

// AddEventHandler implements cache.Informer.
func (i *lateHandlers) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements cache.Informer.
func (i *lateHandlers) AddEventHandlerWithResyncPeriod(h toolscache.ResourceEventHandler, period time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions implements cache.Informer.
func (i *lateHandlers) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, o toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	if !i.HasSynced() {
		return i.Informer.AddEventHandlerWithOptions(h, o)
	}
	s := &initialEvents{ResourceEventHandler: h, world: i.world, name: i.name, delivered: make(chan struct{})}
	r, err := i.Informer.AddEventHandlerWithOptions(s, o)
	if err != nil {
		return r, err
	}
	return &lateRegistration{ResourceEventHandlerRegistration: r, events: s}, nil
}

// RemoveEventHandler implements cache.Informer.
func (i *lateHandlers) RemoveEventHandler(r toolscache.ResourceEventHandlerRegistration) error {
	if late, ok := r.(*lateRegistration); ok {
		r = late.ResourceEventHandlerRegistration
	}
	return i.Informer.RemoveEventHandler(r)
}

// sharedLateHandlers has the methods of lateHandlers and those that only a SharedIndexInformer has.
type sharedLateHandlers struct {
	toolscache.SharedIndexInformer
	lateHandlers
}

// AddEventHandler implements cache.Informer.
func (i *sharedLateHandlers) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.lateHandlers.AddEventHandler(h)
}

// AddEventHandlerWithResyncPeriod implements cache.Informer.
func (i *sharedLateHandlers) AddEventHandlerWithResyncPeriod(h toolscache.ResourceEventHandler, period time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.lateHandlers.AddEventHandlerWithResyncPeriod(h, period)
}

// AddEventHandlerWithOptions implements cache.Informer.
func (i *sharedLateHandlers) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, o toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.lateHandlers.AddEventHandlerWithOptions(h, o)
}

// RemoveEventHandler implements cache.Informer.
func (i *sharedLateHandlers) RemoveEventHandler(r toolscache.ResourceEventHandlerRegistration) error {
	return i.lateHandlers.RemoveEventHandler(r)
}

// AddIndexers implements cache.Informer.
func (i *sharedLateHandlers) AddIndexers(indexers toolscache.Indexers) error {
	return i.SharedIndexInformer.AddIndexers(indexers)
}

// HasSynced implements cache.Informer.
func (i *sharedLateHandlers) HasSynced() bool { return i.SharedIndexInformer.HasSynced() }

// HasSyncedChecker implements cache.Informer.
func (i *sharedLateHandlers) HasSyncedChecker() toolscache.DoneChecker {
	return i.SharedIndexInformer.HasSyncedChecker()
}

// IsStopped implements cache.Informer.
func (i *sharedLateHandlers) IsStopped() bool { return i.SharedIndexInformer.IsStopped() }

// initialEvents is a handler that collects the initial events, and passes them on in the order of their keys when every other
// goroutine of the run is blocked: then all have arrived, and no further event has.
type initialEvents struct {
	toolscache.ResourceEventHandler
	world *World
	name  string

	mu        sync.Mutex
	objects   []any
	started   bool          // an initial event has arrived
	delivered chan struct{} // closed when the initial events have been passed on
}

// OnAdd implements ResourceEventHandler.
func (e *initialEvents) OnAdd(object any, isInInitialList bool) {
	if !isInInitialList {
		e.wait()
		e.ResourceEventHandler.OnAdd(object, false)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.objects = append(e.objects, object)
	if !e.started {
		e.started = true
		go e.deliver()
	}
}

// OnUpdate implements ResourceEventHandler.
func (e *initialEvents) OnUpdate(old, object any) {
	e.wait()
	e.ResourceEventHandler.OnUpdate(old, object)
}

// OnDelete implements ResourceEventHandler.
func (e *initialEvents) OnDelete(object any) {
	e.wait()
	e.ResourceEventHandler.OnDelete(object)
}

// deliver passes the initial events on.
func (e *initialEvents) deliver() {
	defer close(e.delivered)
	e.world.oneByOne(context.Background(), e.name)
	if e.world.ctx.Err() != nil {
		return
	}
	e.mu.Lock()
	objects := e.objects
	e.mu.Unlock()
	key := func(o any) string {
		k, err := toolscache.MetaNamespaceKeyFunc(o)
		if err != nil {
			return "" // no object of the API
		}
		return k
	}
	slices.SortStableFunc(objects, func(a, b any) int { return cmp.Compare(key(a), key(b)) })
	for _, o := range objects {
		e.ResourceEventHandler.OnAdd(o, true)
	}
}

// wait waits until the initial events have been passed on, if there are any.
func (e *initialEvents) wait() {
	e.mu.Lock()
	started := e.started
	e.mu.Unlock()
	if started {
		<-e.delivered
	}
}

// isDelivered reports whether the initial events that have arrived have been passed on.
func (e *initialEvents) isDelivered() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.started {
		return true
	}
	select {
	case <-e.delivered:
		return true
	default:
		return false
	}
}

// lateRegistration is the registration of a late handler.
type lateRegistration struct {
	toolscache.ResourceEventHandlerRegistration
	events *initialEvents
}

// HasSynced implements ResourceEventHandlerRegistration.
func (r *lateRegistration) HasSynced() bool {
	return r.ResourceEventHandlerRegistration.HasSynced() && r.events.isDelivered()
}

// HasSyncedChecker implements ResourceEventHandlerRegistration.
func (r *lateRegistration) HasSyncedChecker() toolscache.DoneChecker {
	inner := r.ResourceEventHandlerRegistration.HasSyncedChecker()
	done := make(chan struct{})
	go func() {
		select {
		case <-inner.Done():
			r.events.wait()
			close(done)
		case <-r.events.world.ctx.Done():
		}
	}()
	return lateChecker{inner, done}
}

// lateChecker is done when the initial events of a late handler have been passed on.
type lateChecker struct {
	toolscache.DoneChecker
	done chan struct{}
}

// Done implements DoneChecker.
func (c lateChecker) Done() <-chan struct{} { return c.done }
