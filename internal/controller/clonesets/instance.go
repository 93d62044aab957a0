package clonesets

import (
	"context"
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

// instance is a reconcile.Instance: the caches, the queue and the memory of a running controller.
type instance struct {
	options  Options
	client   kubernetes.Interface
	sets     rest.Interface
	metadata metadata.Interface // for the audit
	metrics  *Metrics

	informers informers.SharedInformerFactory
	caches    map[string]cache.SharedIndexInformer // by resource
	nodes     nodes
	anySet    chan struct{} // closed when there is a CloneSet
	haveSet   sync.Once
	queue     workqueue.TypedRateLimitingInterface[key]
	memories  reconcile.Memories[key, memory]
	writer    *reconcile.Writer
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
	c.writer = c.newWriter()
	if err := c.watch(); err != nil {
		return nil, err
	}
	return c, nil
}

// trim drops what the controller does not read: managed fields and, for an object that another kind
// controls, everything but its identity.
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

// trimButPods is trim for a shared pod cache, whose pods must not be modified.
func trimButPods(obj any) (any, error) {
	if _, ok := obj.(*corev1.Pod); ok {
		return obj, nil
	}
	return trim(obj)
}

// Run implements reconcile.Instance.
func (c *instance) Run(ctx context.Context, synced func()) (err error) {
	if c.events, err = reconcile.NewEvents(c.options.Events, scheme, "cloneset-controller"); err != nil {
		return err
	}
	defer c.events.Shutdown()
	c.queue = reconcile.NewQueue[key]("cloneset", nil)
	loop := reconcile.Loop[key]{
		Kind: v1alpha1.Kind, Queue: c.queue, Workers: c.options.Workers, Sync: c.work,
		AuditEvery: c.options.Audit, Metadata: c.metadata, Audited: c.audited,
	}
	return loop.Run(ctx, func(ctx context.Context) (wait func(), ok bool) {
		var running sync.WaitGroup
		c.nodes.start = func() { running.Go(func() { c.nodes.run(ctx) }) }
		running.Go(func() { c.caches[setsResource].RunWithContext(ctx) })
		ok = c.startInformers(ctx, synced)
		return func() {
			c.informers.Shutdown()
			running.Wait()
		}, ok
	})
}

// startInformers starts the informers of what CloneSets own, once there is a CloneSet, and waits until all
// are synced. It returns false if ctx ends before.
func (c *instance) startInformers(ctx context.Context, synced func()) bool {
	if !cache.WaitForCacheSync(ctx.Done(), c.caches[setsResource].HasSynced) {
		return false
	}
	if len(c.caches[setsResource].GetStore().ListKeys()) == 0 {
		// Without a CloneSet, a watch of all pods would be wasted.
		synced()
		select {
		case <-c.anySet:
		case <-ctx.Done():
			return false
		}
	}
	c.informers.Start(ctx.Done())
	for _, informer := range c.caches {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return false
		}
	}
	synced()
	return true
}

// audited returns what the audit compares: CloneSets, and the pods and claims with the label of one.
func (c *instance) audited() []reconcile.Audited {
	labeled := func(resource, label string) reconcile.Audited {
		a := reconcile.Audited{Resource: corev1.SchemeGroupVersion.WithResource(resource), Selector: label, Informer: c.caches[resource]}
		a.Concerns = func(o metav1.Object) bool { _, ok := o.GetLabels()[label]; return ok }
		return a
	}
	sets := reconcile.Audited{Resource: v1alpha1.GroupVersion.WithResource(setsResource), Informer: c.caches[setsResource], Concerns: reconcile.All}
	sets.Live = func(ctx context.Context, namespace, name string) (metav1.Object, error) {
		set := &v1alpha1.CloneSet{}
		return set, c.sets.Get().Namespace(namespace).Resource(setsResource).Name(name).Do(ctx).Into(set)
	}
	pods, claims := labeled(podsResource, kruise.LabelInstanceID), labeled(claimsResource, kruise.LabelInstanceID)
	pods.Live = func(ctx context.Context, namespace, name string) (metav1.Object, error) {
		return c.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	claims.Live = func(ctx context.Context, namespace, name string) (metav1.Object, error) {
		return c.client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	return []reconcile.Audited{sets, pods, claims}
}

// work reconciles one CloneSet and returns when to reconcile it again at the latest.
func (c *instance) work(ctx context.Context, k key) (time.Duration, error) {
	start := time.Now()
	wake, err := c.sync(ctx, k)
	c.metrics.synced(time.Since(start), err)
	return wake, err
}

// cached returns an object from a cache, nil if it is not there.
func cached[T any](c *instance, resource, namespace, name string) *T {
	obj, found, err := c.caches[resource].GetIndexer().GetByKey(namespace + "/" + name)
	if err != nil || !found {
		return nil
	}
	return obj.(*T)
}

// set returns the CloneSet of a key from the cache, nil if it is not there.
func (c *instance) set(k key) *v1alpha1.CloneSet {
	if set := cached[v1alpha1.CloneSet](c, setsResource, k.namespace, k.name); set != nil && set.UID == k.uid && k.uid != "" {
		return set
	}
	return nil
}

// store returns the cache of a resource.
func (c *instance) store(resource string) cache.Store { return c.caches[resource].GetStore() }
