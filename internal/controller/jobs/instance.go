package jobs

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
)

// instance is a reconcile.Instance: the caches, the queue and the memory of a running controller.
type instance struct {
	options   Options
	client    kubernetes.Interface
	informers informers.SharedInformerFactory
	jobs      cache.SharedIndexInformer
	pods      cache.SharedIndexInformer
	queue     workqueue.TypedRateLimitingInterface[key]
	memories  memories
	writer    *reconcile.Writer
	events    *reconcile.Events
	metrics   *Metrics
	metadata  metadata.Interface // for the audit
}

func newInstance(config *rest.Config, o Options, corrections *reconcile.Corrections) (*instance, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := metadata.NewForConfig(metadata.ConfigFor(config))
	if err != nil {
		return nil, err
	}
	c := &instance{
		options: o, client: client, metrics: o.Metrics, metadata: objects,
		informers: informers.NewSharedInformerFactoryWithOptions(o.Pods.Client(client, "", nil), 0, informers.WithTransform(corrections.Transform(reconcile.DropManagedFields)), informers.WithTweakListOptions(reconcile.Consistent)),
	}
	c.jobs, c.pods = c.informers.Batch().V1().Jobs().Informer(), c.informers.Core().V1().Pods().Informer()
	c.writer = c.newWriter()
	if err := c.watch(); err != nil {
		return nil, err
	}
	return c, nil
}

// Run implements reconcile.Instance.
func (c *instance) Run(ctx context.Context, synced func()) error {
	var err error
	if c.events, err = reconcile.NewEvents(c.options.Events, scheme.Scheme, "job-controller"); err != nil {
		return err
	}
	defer c.events.Shutdown()
	c.queue = reconcile.NewQueue("job", newLanes(c.memories.isUrgent))
	loop := reconcile.Loop[key]{
		Kind: kind, Queue: c.queue, Workers: c.options.Workers, Sync: c.work,
		AuditEvery: c.options.Audit, Metadata: c.metadata, Audited: c.audited,
	}
	return loop.Run(ctx, func(ctx context.Context) (wait func(), ok bool) {
		c.informers.Start(ctx.Done())
		if ok = cache.WaitForCacheSync(ctx.Done(), c.jobs.HasSynced, c.pods.HasSynced); ok {
			synced()
		}
		return c.informers.Shutdown, ok
	})
}

// work reconciles one key and returns when to reconcile it again at the latest.
func (c *instance) work(ctx context.Context, k key) (time.Duration, error) {
	start := time.Now()
	o, err := c.sync(ctx, k)
	c.metrics.synced(o, time.Since(start), err)
	return o.wake, err
}

// job returns the Job of a key from the cache, nil if it is not there.
func (c *instance) job(k key) (*batchv1.Job, error) {
	obj, found, err := c.jobs.GetIndexer().GetByKey(k.namespace + "/" + k.name)
	if err != nil || !found {
		return nil, err
	}
	if j := obj.(*batchv1.Job); j.UID == k.uid && k.uid != "" {
		return j, nil
	}
	return nil, nil
}

// pod returns a pod from the cache, nil if it is not there.
func (c *instance) pod(namespace, name string) *corev1.Pod {
	obj, found, err := c.pods.GetIndexer().GetByKey(namespace + "/" + name)
	if err != nil || !found {
		return nil
	}
	return obj.(*corev1.Pod)
}

// store returns the cache of a resource.
func (c *instance) store(resource string) cache.Store {
	if resource == jobsResource {
		return c.jobs.GetStore()
	}
	return c.pods.GetStore()
}

const (
	jobsResource = "jobs"
	podsResource = "pods"
)

// audited returns what the audit compares: Jobs, and pods with the label job-name; all pods if a Job has
// spec.manualSelector, because its pods need not have that label.
func (c *instance) audited() []reconcile.Audited {
	pods := reconcile.Audited{
		Resource: corev1.SchemeGroupVersion.WithResource(podsResource), Selector: batchv1.JobNameLabel, Informer: c.pods,
		Concerns: func(o metav1.Object) bool {
			_, ok := o.GetLabels()[batchv1.JobNameLabel]
			return ok
		},
		Live: func(ctx context.Context, namespace, name string) (metav1.Object, error) {
			return c.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		},
	}
	if len(c.jobs.GetIndexer().ListIndexFuncValues(manual)) > 0 {
		pods.Selector, pods.Concerns = "", reconcile.All
	}
	jobs := reconcile.Audited{
		Resource: batchv1.SchemeGroupVersion.WithResource(jobsResource), Informer: c.jobs, Concerns: reconcile.All,
		Live: func(ctx context.Context, namespace, name string) (metav1.Object, error) {
			return c.client.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
		},
	}
	return []reconcile.Audited{jobs, pods}
}
