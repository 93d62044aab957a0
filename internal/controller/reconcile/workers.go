package reconcile

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

const (
	// Fallback is when an owner is looked at again although no event asked for it, after
	// writes or while a cache is behind. Usually the events come first.
	Fallback = time.Second
	// RetryFirst and RetryMost are the waits after errors.
	RetryFirst, RetryMost = 100 * time.Millisecond, time.Minute
	// manyTries in a row that failed are worth a line in any log.
	manyTries = 6
)

// Key is what a queue holds.
type Key interface {
	comparable
	// Ref is for logs.
	Ref() klog.ObjectRef
}

// NewQueue is a work queue with retries. order, if it is not nil, says which key is next.
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

// Work has workers look after keys until the queue is shut down, and waits for them. do
// says when to look again at the latest, zero for not before something happens. kind is for
// logs, as in "Job".
func Work[K Key](ctx context.Context, kind string, queue workqueue.TypedRateLimitingInterface[K], workers int, do func(context.Context, K) (wake time.Duration, err error)) {
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for work(ctx, kind, queue, do) {
			}
		})
	}
	all.Wait()
}

// work looks after one key, and tells whether there is more to come.
func work[K Key](ctx context.Context, kind string, queue workqueue.TypedRateLimitingInterface[K], do func(context.Context, K) (time.Duration, error)) bool {
	k, quit := queue.Get()
	if quit {
		return false
	}
	defer queue.Done(k)
	if ctx.Err() != nil {
		return true // the queue hands out what it has before it ends
	}
	wake, err := do(ctx, k)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, ErrStale):
		// Nothing went wrong: the event that says so is on its way.
		queue.Forget(k)
		queue.AddAfter(k, Fallback)
	case err != nil:
		level := klog.Level(2)
		if queue.NumRequeues(k) >= manyTries {
			level = 0
		}
		klog.FromContext(ctx).V(int(level)).Info("It is tried again", "kind", kind, "object", k.Ref(), "after", err)
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
			queue.AddAfter(k, time.Duration(seconds)*time.Second)
		} else {
			queue.AddRateLimited(k)
		}
	default:
		queue.Forget(k)
		if wake > 0 {
			queue.AddAfter(k, wake)
		}
	}
	return true
}
