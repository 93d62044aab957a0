package clonesets

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/rehearse-k8s/rehearse/api/apps"
	"github.com/rehearse-k8s/rehearse/api/apps/v1alpha1"
	"github.com/rehearse-k8s/rehearse/controller"
	"github.com/rehearse-k8s/rehearse/controller/shell"
)

// instance is one life of the controller: caches, queue and memory.
type instance struct {
	options  Options
	client   kubernetes.Interface
	sets     rest.Interface
	metadata metadata.Interface // for the audit
	metrics  *Metrics

	informers informers.SharedInformerFactory
	caches    map[string]cache.SharedIndexInformer // by resource
	nodes     nodes
	anySet    chan struct{} // closed when there is a set
	haveSet   sync.Once
	queue     workqueue.TypedRateLimitingInterface[key]
	memories  memories
	events    *shell.Events
}

func newInstance(config *rest.Config, o Options) (*instance, error) {
	c := &instance{options: o, metrics: o.Metrics, anySet: make(chan struct{})}
	var err error
	if c.client, err = kubernetes.NewForConfig(config); err == nil {
		c.sets, err = newSetsClient(config)
	}
	if err == nil {
		c.metadata, err = metadata.NewForConfig(metadata.ConfigFor(config))
	}
	var sets cache.SharedIndexInformer
	if err == nil {
		sets, err = newSetsInformer(c.sets)
	}
	if err != nil {
		return nil, fmt.Errorf("CloneSet controller: %w", err)
	}
	c.informers = informers.NewSharedInformerFactoryWithOptions(c.client, 0, informers.WithTransform(trim), informers.WithTweakListOptions(shell.Consistent))
	c.caches = map[string]cache.SharedIndexInformer{
		setsResource:      sets,
		podsResource:      c.informers.Core().V1().Pods().Informer(),
		claimsResource:    c.informers.Core().V1().PersistentVolumeClaims().Informer(),
		revisionsResource: c.informers.Apps().V1().ControllerRevisions().Informer(),
	}
	c.nodes.client = c.client
	if err := c.watch(); err != nil {
		return nil, fmt.Errorf("CloneSet controller: %w", err)
	}
	return c, nil
}

// trim drops what nobody here reads: managed fields, and of objects that another kind
// controls everything but who they are.
func trim(obj any) (any, error) {
	o, ok := obj.(metav1.Object)
	if !ok {
		return obj, nil
	}
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil && !isSet(ref) {
		m := metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(), OwnerReferences: o.GetOwnerReferences()}
		switch obj.(type) {
		case *corev1.Pod:
			return &corev1.Pod{ObjectMeta: m}, nil
		case *appsv1.ControllerRevision:
			return &appsv1.ControllerRevision{ObjectMeta: m}, nil
		}
	}
	return controller.Trim(obj)
}

// manyTries in a row that failed are worth a line in any log.
const manyTries = 6

// run looks after sets until ctx ends or the audit finds that a cache is wrong.
func (c *instance) run(ctx context.Context, synced func()) (err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if c.events, err = shell.NewEvents(c.options.Events, scheme, "cloneset-controller"); err != nil {
		return fmt.Errorf("CloneSet controller: %w", err)
	}
	defer c.events.Shutdown()
	c.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[key](retryFirst, retryMost),
		workqueue.TypedRateLimitingQueueConfig[key]{Name: "cloneset"})
	defer context.AfterFunc(ctx, c.queue.ShutDown)()
	var running sync.WaitGroup
	defer running.Wait()
	defer stop(nil)
	running.Go(func() { c.caches[setsResource].RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), c.caches[setsResource].HasSynced) {
		return nil
	}
	if len(c.caches[setsResource].GetStore().ListKeys()) == 0 {
		// Nobody has a CloneSet: to watch all pods would cost something and be for nothing.
		synced()
		select {
		case <-c.anySet:
		case <-ctx.Done():
			return nil
		}
	}
	c.informers.Start(ctx.Done())
	defer c.informers.Shutdown()
	for _, informer := range c.caches {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return nil
		}
	}
	synced()
	c.nodes.start = func() { running.Go(func() { c.nodes.run(ctx) }) }
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

// audited are the sets, and of the rest what bears the marks of one.
func (c *instance) audited() []shell.Audited {
	marked := func(resource, label string) shell.Audited {
		a := shell.Audited{Resource: corev1.SchemeGroupVersion.WithResource(resource), Selector: label, Informer: c.caches[resource]}
		a.Concerns = func(o metav1.Object) bool { _, ok := o.GetLabels()[label]; return ok }
		return a
	}
	return []shell.Audited{
		{Resource: v1alpha1.GroupVersion.WithResource(setsResource), Informer: c.caches[setsResource], Concerns: shell.All},
		marked(podsResource, apps.LabelInstanceID), marked(claimsResource, apps.LabelInstanceID),
	}
}

// work looks after one set, and tells whether there is more to come.
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
	wake, err := c.sync(ctx, k)
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
		klog.FromContext(ctx).V(int(level)).Info("CloneSet is tried again", "cloneSet", klog.KRef(k.namespace, k.name), "after", err)
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
			c.queue.AddAfter(k, time.Duration(seconds)*time.Second)
		} else {
			c.queue.AddRateLimited(k)
		}
	default:
		c.queue.Forget(k)
		if wake > 0 {
			c.queue.AddAfter(k, wake)
		}
	}
	c.metrics.synced(time.Since(began), err)
	return true
}

// cached is an object that a cache shows, nil if it does not.
func cached[T any](c *instance, resource, namespace, name string) *T {
	obj, found, err := c.caches[resource].GetIndexer().GetByKey(namespace + "/" + name)
	if err != nil || !found {
		return nil
	}
	return obj.(*T)
}

func (c *instance) set(k key) *v1alpha1.CloneSet {
	if set := cached[v1alpha1.CloneSet](c, setsResource, k.namespace, k.name); set != nil && set.UID == k.uid {
		return set
	}
	return nil
}

// reached is the revision that the cache of a resource shows.
func (c *instance) reached(resource string) string {
	return c.caches[resource].GetStore().LastStoreSyncResourceVersion()
}
