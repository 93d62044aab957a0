package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/rehearse-k8s/rehearse/controller"
	"github.com/rehearse-k8s/rehearse/controller/shell"
)

// instance is one life of the controller: caches, queue and memory.
type instance struct {
	options   Options
	client    kubernetes.Interface
	informers informers.SharedInformerFactory
	jobs      cache.SharedIndexInformer
	pods      cache.SharedIndexInformer
	queue     workqueue.TypedRateLimitingInterface[key]
	memories  memories
	events    *shell.Events
	metrics   *Metrics
	metadata  metadata.Interface // for the audit
}

func newInstance(config *rest.Config, o Options) (*instance, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("job controller: %w", err)
	}
	objects, err := metadata.NewForConfig(metadata.ConfigFor(config))
	if err != nil {
		return nil, fmt.Errorf("job controller: %w", err)
	}
	c := &instance{
		options: o, client: client, metrics: o.Metrics, metadata: objects,
		informers: informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(controller.Trim), informers.WithTweakListOptions(shell.Consistent)),
	}
	c.jobs, c.pods = c.informers.Batch().V1().Jobs().Informer(), c.informers.Core().V1().Pods().Informer()
	if err := c.watch(); err != nil {
		return nil, fmt.Errorf("job controller: %w", err)
	}
	return c, nil
}

// manyTries in a row that failed are worth a line in any log.
const manyTries = 6

// newQueue is a work queue with retries whose order is that of lanes.
func newQueue(urgent func(key) bool) workqueue.TypedRateLimitingInterface[key] {
	const name = "job"
	ordered := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[key]{Name: name, Queue: newLanes(urgent)})
	delayed := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[key]{Name: name, Queue: ordered})
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[key](retryFirst, retryMost),
		workqueue.TypedRateLimitingQueueConfig[key]{Name: name, DelayingQueue: delayed})
}

// run looks after Jobs until ctx ends or the audit finds that a cache is wrong.
func (c *instance) run(ctx context.Context, synced func()) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var err error
	if c.events, err = shell.NewEvents(c.options.Events, scheme.Scheme, "job-controller"); err != nil {
		return fmt.Errorf("job controller: %w", err)
	}
	defer c.events.Shutdown()
	c.queue = newQueue(c.memories.urgent)
	defer context.AfterFunc(ctx, c.queue.ShutDown)()
	c.informers.Start(ctx.Done())
	defer c.informers.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), c.jobs.HasSynced, c.pods.HasSynced) {
		return nil
	}
	synced()
	var workers sync.WaitGroup
	for range c.options.Workers {
		workers.Go(func() {
			for c.work(ctx) {
			}
		})
	}
	if c.options.Audit > 0 {
		workers.Go(func() { stop(shell.Audit(ctx, c.options.Audit, c.metadata, c.audited)) })
	}
	workers.Wait()
	if cause := context.Cause(ctx); errors.Is(cause, shell.ErrDeparted) {
		return cause
	}
	return nil
}

// work looks after one Job, and tells whether there is more to come.
func (c *instance) work(ctx context.Context) bool {
	k, quit := c.queue.Get()
	if quit {
		return false
	}
	defer c.queue.Done(k)
	if ctx.Err() != nil {
		return true // the queue hands out what it has before it ends
	}
	began := time.Now()
	o, err := c.sync(ctx, k)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, shell.ErrStale):
		// Nothing went wrong: the event that says so is on its way.
		c.queue.Forget(k)
		c.queue.AddAfter(k, fallback)
	case err != nil:
		level := klog.Level(2)
		if c.queue.NumRequeues(k) >= manyTries {
			level = 0
		}
		klog.FromContext(ctx).V(int(level)).Info("Job is tried again", "job", klog.KRef(k.namespace, k.name), "after", err)
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
			c.queue.AddAfter(k, time.Duration(seconds)*time.Second)
		} else {
			c.queue.AddRateLimited(k)
		}
	default:
		c.queue.Forget(k)
		if o.wake > 0 {
			c.queue.AddAfter(k, o.wake)
		}
	}
	c.metrics.synced(o, time.Since(began), err)
	return true
}

func (c *instance) job(k key) (*batchv1.Job, error) {
	obj, found, err := c.jobs.GetIndexer().GetByKey(k.namespace + "/" + k.name)
	if err != nil || !found {
		return nil, err
	}
	if j := obj.(*batchv1.Job); j.UID == k.uid {
		return j, nil
	}
	return nil, nil
}

func (c *instance) pod(namespace, name string) *corev1.Pod {
	obj, found, err := c.pods.GetIndexer().GetByKey(namespace + "/" + name)
	if err != nil || !found {
		return nil
	}
	return obj.(*corev1.Pod)
}

// reached is the revision that the cache of a resource shows.
func (c *instance) reached(resource string) string {
	if resource == jobsResource {
		return c.jobs.GetStore().LastStoreSyncResourceVersion()
	}
	return c.pods.GetStore().LastStoreSyncResourceVersion()
}

const (
	jobsResource = "jobs"
	podsResource = "pods"
)

// audited are the Jobs, and the pods that bear the name of one; all pods where a Job has
// a selector of the user's own, whose pods need not bear it.
func (c *instance) audited() []shell.Audited {
	pods := shell.Audited{
		Resource: corev1.SchemeGroupVersion.WithResource(podsResource), Selector: batchv1.JobNameLabel, Informer: c.pods,
		Concerns: func(o metav1.Object) bool {
			_, ok := o.GetLabels()[batchv1.JobNameLabel]
			return ok
		},
	}
	if len(c.jobs.GetIndexer().ListIndexFuncValues(manual)) > 0 {
		pods.Selector, pods.Concerns = "", shell.All
	}
	return []shell.Audited{{Resource: batchv1.SchemeGroupVersion.WithResource(jobsResource), Informer: c.jobs, Concerns: shell.All}, pods}
}
