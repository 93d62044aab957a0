package reconcile

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

const (
	// Fallback is when an owner is reconciled again after writes, or while a cache is behind, if no event
	// comes before. Usually one does.
	Fallback = time.Second
	// RetryFirst and RetryMost are the shortest and the longest wait after errors.
	RetryFirst, RetryMost = 100 * time.Millisecond, time.Minute
	// alwaysLogged is how many consecutive failures of a key are logged at any verbosity.
	alwaysLogged = 6
)

// Key is an item of a queue.
type Key interface {
	comparable
	// Ref names the object in logs.
	Ref() klog.ObjectRef
}

// NewQueue returns a work queue with rate-limited retries. order, if it is not nil, decides which key is
// next.
func NewQueue[K Key](name string, order workqueue.Queue[K]) workqueue.TypedRateLimitingInterface[K] {
	if order == nil {
		order = workqueue.DefaultQueue[K]()
	}
	ordered := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[K]{Name: name, Queue: order})
	delayed := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[K]{Name: name, Queue: ordered})
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[K](RetryFirst, RetryMost),
		workqueue.TypedRateLimitingQueueConfig[K]{Name: name, DelayingQueue: delayed})
}

// Loop runs the workers of an Instance, and compares its caches with the API.
type Loop[K Key] struct {
	Kind    string // for logs, as in "Job"
	Queue   workqueue.TypedRateLimitingInterface[K]
	Workers int
	// Sync reconciles one key. wake is when the key is reconciled again at the latest; zero: not before
	// something changes. After ErrStale it is Fallback. After another error the key is reconciled when the queue's backoff ends, or after wake if
	// that is earlier: a write that fails does not delay what is due at a time.
	Sync func(ctx context.Context, key K) (wake time.Duration, err error)
	// AuditEvery is the interval of the audit, 0 or less for none. It reads with Metadata what Audited
	// returns.
	AuditEvery time.Duration
	Metadata   metadata.Interface
	Audited    func() []Audited
}

// Run calls start, which starts the informers and waits until they are synced, and then runs the workers
// and the audit until ctx ends or the audit finds a wrong object (ErrDiverged). wait waits until the
// informers have stopped; synced is false if ctx ended before they were synced.
func (l *Loop[K]) Run(ctx context.Context, start func(ctx context.Context) (wait func(), synced bool)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(ctx, l.Queue.ShutDown)()
	wait, synced := start(ctx)
	defer wait()
	defer stop(nil)
	if !synced {
		return nil
	}
	var audit sync.WaitGroup
	if l.AuditEvery > 0 {
		audit.Go(func() { stop(Audit(ctx, l.AuditEvery, l.Metadata, l.Audited, First)) })
	}
	l.work(ctx)
	audit.Wait()
	if cause := context.Cause(ctx); errors.Is(cause, ErrDiverged) {
		return cause
	}
	return nil
}

// work runs workers until the queue is shut down.
func (l *Loop[K]) work(ctx context.Context) {
	var workers sync.WaitGroup
	for range l.Workers {
		workers.Go(func() {
			for l.workOne(ctx) {
			}
		})
	}
	workers.Wait()
}

// workOne takes one key from the queue and reconciles it. It returns false if the queue is shut down.
func (l *Loop[K]) workOne(ctx context.Context) bool {
	k, quit := l.Queue.Get()
	if quit {
		return false
	}
	defer l.Queue.Done(k)
	if ctx.Err() != nil {
		return true // a queue that is shut down still returns the keys that it has
	}
	wake, err := l.Sync(ctx, k)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, ErrStale):
		// No error: the event that shows the newer state is on its way.
		l.Queue.Forget(k)
		l.Queue.AddAfter(k, Fallback)
	case err != nil:
		level := klog.Level(2)
		if l.Queue.NumRequeues(k) >= alwaysLogged {
			level = 0
		}
		klog.FromContext(ctx).V(int(level)).Info("Reconcile failed, will retry", "kind", l.Kind, "object", k.Ref(), "error", err)
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
			l.Queue.AddAfter(k, time.Duration(seconds)*time.Second)
		} else {
			l.Queue.AddRateLimited(k)
		}
		l.wakeAfter(k, wake)
	default:
		l.Queue.Forget(k)
		l.wakeAfter(k, wake)
	}
	return true
}

// wakeAfter adds a key to the queue after wake. If the key waits already, the earlier time counts.
func (l *Loop[K]) wakeAfter(k K, wake time.Duration) {
	if wake > 0 {
		l.Queue.AddAfter(k, wake)
	}
}
