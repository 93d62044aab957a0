package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

const (
	// fallback is when a Job is looked at again although no event asked for it, after
	// writes or while a cache is behind. Usually the events come first.
	fallback = time.Second
	// retryFirst and retryMost are the waits after errors.
	retryFirst, retryMost = 100 * time.Millisecond, time.Minute
)

// key is what the queue holds: a Job, or a pod that we hold and that belongs to nobody.
type key struct {
	namespace, name string
	uid             types.UID
	pod             bool
}

// Controller looks after Jobs.
type Controller struct {
	options   Options
	client    kubernetes.Interface
	informers informers.SharedInformerFactory
	jobs      cache.SharedIndexInformer
	pods      cache.SharedIndexInformer
	queue     workqueue.TypedRateLimitingInterface[key]
	memories  memories
	recorder  record.EventRecorder
	events    record.EventBroadcaster
	metrics   *Metrics
	synced    chan struct{}
}

// Synced is closed once the caches show what there is, or, with Options.Lead, once the
// controller stands by.
func (c *Controller) Synced() <-chan struct{} { return c.synced }

// New builds the controller. Nothing is asked of the API before Run.
func New(config *rest.Config, o Options) (*Controller, error) {
	o.complete()
	client, err := kubernetes.NewForConfig(unlimited(config))
	if err != nil {
		return nil, fmt.Errorf("job controller: %w", err)
	}
	c := &Controller{
		options: o, client: client, metrics: o.Metrics, synced: make(chan struct{}),
		informers: informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trim), informers.WithTweakListOptions(consistent)),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[key](retryFirst, retryMost),
			workqueue.TypedRateLimitingQueueConfig[key]{Name: "job"}),
	}
	c.jobs, c.pods = c.informers.Batch().V1().Jobs().Informer(), c.informers.Core().V1().Pods().Informer()
	if err := c.watch(); err != nil {
		return nil, fmt.Errorf("job controller: %w", err)
	}
	return c, c.record()
}

// Runner is the controller as a function of its client, for worlds that start and end
// it again and again.
func Runner(o Options) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, config *rest.Config) error {
		c, err := New(config, o)
		if err != nil {
			return err
		}
		return c.Run(ctx)
	}
}

// unlimited lets the API server's own priority and fairness say who waits. A limit that
// the caller has set stays.
func unlimited(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	if config.QPS == 0 && config.RateLimiter == nil {
		config.QPS = -1
	}
	if config.ContentType == "" {
		config.ContentType, config.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	}
	return config
}

// consistent makes the first list show all that was written before it: a process that
// has just begun knows nothing of its predecessor's writes, and could not tell that a
// list from some server's cache is older than they are.
func consistent(o *metav1.ListOptions) {
	if o.ResourceVersion == "0" {
		o.ResourceVersion, o.ResourceVersionMatch = "", ""
	}
}

// trim drops what nobody here reads: managed fields are a third of a pod.
func trim(obj any) (any, error) {
	if m, err := meta.Accessor(obj); err == nil {
		m.SetManagedFields(nil)
	}
	return obj, nil
}

// Run looks after Jobs until ctx ends, and returns when everything it began has ended.
func (c *Controller) Run(ctx context.Context) error {
	defer c.events.Shutdown()
	stop := context.AfterFunc(ctx, c.queue.ShutDown)
	defer stop()
	if !c.leads(ctx) {
		return nil
	}
	c.informers.Start(ctx.Done())
	defer c.informers.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), c.jobs.HasSynced, c.pods.HasSynced) {
		return nil
	}
	if c.options.Lead == nil {
		close(c.synced)
	}
	var workers sync.WaitGroup
	for range c.options.Workers {
		workers.Go(func() {
			for c.work(ctx) {
			}
		})
	}
	workers.Wait()
	return nil
}

// leads waits until this instance may begin.
func (c *Controller) leads(ctx context.Context) bool {
	if c.options.Lead == nil {
		return true
	}
	close(c.synced)
	select {
	case <-c.options.Lead:
		return true
	case <-ctx.Done():
		return false
	}
}

// work looks after one Job, and tells whether there is more to come.
func (c *Controller) work(ctx context.Context) bool {
	k, quit := c.queue.Get()
	if quit {
		return false
	}
	defer c.queue.Done(k)
	began := time.Now()
	o, err := c.sync(ctx, k)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errStale):
		// Nothing went wrong: the event that says so is on its way.
		c.queue.Forget(k)
		c.queue.AddAfter(k, fallback)
	case err != nil:
		klog.FromContext(ctx).V(2).Info("Job is tried again", "job", klog.KRef(k.namespace, k.name), "after", err)
		c.queue.AddRateLimited(k)
	default:
		c.queue.Forget(k)
		if o.wake > 0 {
			c.queue.AddAfter(k, o.wake)
		}
	}
	c.metrics.synced(o, time.Since(began), err)
	return true
}

func (c *Controller) job(k key) (*batchv1.Job, error) {
	obj, found, err := c.jobs.GetIndexer().GetByKey(k.namespace + "/" + k.name)
	if err != nil || !found {
		return nil, err
	}
	if j := obj.(*batchv1.Job); j.UID == k.uid {
		return j, nil
	}
	return nil, nil
}

func (c *Controller) pod(namespace, name string) *corev1.Pod {
	obj, found, err := c.pods.GetIndexer().GetByKey(namespace + "/" + name)
	if err != nil || !found {
		return nil
	}
	return obj.(*corev1.Pod)
}

// reached is the revision that the cache of a resource shows.
func (c *Controller) reached(resource string) string {
	if resource == jobsResource {
		return c.jobs.GetStore().LastStoreSyncResourceVersion()
	}
	return c.pods.GetStore().LastStoreSyncResourceVersion()
}

const (
	jobsResource = "jobs"
	podsResource = "pods"
)
