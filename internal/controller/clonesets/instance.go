package clonesets

import (
	"context"
	"errors"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
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
	memories  reconcile.Memories[key, memory]
	events    *reconcile.Events
}

func newInstance(config *rest.Config, o Options, corrections *reconcile.Corrections) (*instance, error) {
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
		var client *dynamic.DynamicClient
		if client, err = dynamic.NewForConfig(config); err == nil {
			sets, err = newSetsInformer(client, corrections)
		}
	}
	if err != nil {
		return nil, err
	}
	small := trim
	if o.Pods != nil {
		small = trimButPods
	}
	c.informers = informers.NewSharedInformerFactoryWithOptions(o.Pods.Client(c.client, "", nil), 0, informers.WithTransform(corrections.Transform(small)), informers.WithTweakListOptions(reconcile.Consistent))
	c.caches = map[string]cache.SharedIndexInformer{
		setsResource:      sets,
		podsResource:      c.informers.Core().V1().Pods().Informer(),
		claimsResource:    c.informers.Core().V1().PersistentVolumeClaims().Informer(),
		revisionsResource: c.informers.Apps().V1().ControllerRevisions().Informer(),
	}
	c.nodes.client = c.client
	if err := c.watch(); err != nil {
		return nil, err
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
	return reconcile.DropManagedFields(obj)
}

// trimButPods is trim where pods are everybody's: their memory is shared.
func trimButPods(obj any) (any, error) {
	if _, ok := obj.(*corev1.Pod); ok {
		return obj, nil
	}
	return trim(obj)
}

// Run implements shell.Life: it looks after sets until ctx ends or the audit finds that a
// cache is wrong.
func (c *instance) Run(ctx context.Context, synced func()) (err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if c.events, err = reconcile.NewEvents(c.options.Events, scheme, "cloneset-controller"); err != nil {
		return err
	}
	defer c.events.Shutdown()
	c.queue = reconcile.NewQueue[key]("cloneset", nil)
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
	if c.options.Audit > 0 {
		running.Go(func() { stop(reconcile.Audit(ctx, c.options.Audit, c.metadata, c.audited, reconcile.First)) })
	}
	reconcile.Work(ctx, v1alpha1.Kind, c.queue, c.options.Workers, c.work)
	if cause := context.Cause(ctx); errors.Is(cause, reconcile.ErrDeparted) {
		return cause
	}
	return nil
}

// audited are the sets, and of the rest what bears the marks of one.
func (c *instance) audited() []reconcile.Audited {
	marked := func(resource, label string) reconcile.Audited {
		a := reconcile.Audited{Resource: corev1.SchemeGroupVersion.WithResource(resource), Selector: label, Informer: c.caches[resource]}
		a.Concerns = func(o metav1.Object) bool { _, ok := o.GetLabels()[label]; return ok }
		return a
	}
	sets := reconcile.Audited{Resource: v1alpha1.GroupVersion.WithResource(setsResource), Informer: c.caches[setsResource], Concerns: reconcile.All}
	sets.Live = func(ctx context.Context, namespace, name string) (metav1.Object, error) {
		set := &v1alpha1.CloneSet{}
		return set, c.sets.Get().Namespace(namespace).Resource(setsResource).Name(name).Do(ctx).Into(set)
	}
	pods, claims := marked(podsResource, kruise.LabelInstanceID), marked(claimsResource, kruise.LabelInstanceID)
	pods.Live = func(ctx context.Context, namespace, name string) (metav1.Object, error) {
		return c.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	claims.Live = func(ctx context.Context, namespace, name string) (metav1.Object, error) {
		return c.client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	return []reconcile.Audited{sets, pods, claims}
}

// work looks after one set, and says when to look again at the latest.
func (c *instance) work(ctx context.Context, k key) (time.Duration, error) {
	began := time.Now()
	wake, err := c.sync(ctx, k)
	c.metrics.synced(time.Since(began), err)
	return wake, err
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
	if set := cached[v1alpha1.CloneSet](c, setsResource, k.namespace, k.name); set != nil && set.UID == k.uid && k.uid != "" {
		return set
	}
	return nil
}

// store is the cache of a resource.
func (c *instance) store(resource string) cache.Store { return c.caches[resource].GetStore() }
