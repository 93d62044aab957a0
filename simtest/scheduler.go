package simtest

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/rehearse-k8s/rehearse/fault"
)

// binder binds each pod without a node to an existing node. It ignores resources, affinity and
// taints. It replaces upstream's scheduler, which is too large to be part of every test binary.
type binder struct {
	seed     uint64
	client   *corev1client.CoreV1Client
	pods     cache.Store
	queue    workqueue.TypedRateLimitingInterface[cache.ObjectName]
	nodes    []string // as of listedAt
	listedAt time.Time
}

// maxNodesAge is the maximum age of the list of nodes. A watch of nodes would add a step per node
// to every run.
const maxNodesAge = 10 * time.Second

var errNoNode = errors.New("no schedulable node exists")

func scheduler(seed uint64) Constructor {
	return func(ctx context.Context, config *rest.Config) error {
		client, err := corev1client.NewForConfig(config)
		if err != nil {
			return err
		}
		b := &binder{seed: seed, client: client, queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())}
		return b.run(ctx)
	}
}

func (b *binder) run(ctx context.Context) error {
	informer := cache.NewSharedInformer(b.unbound(), &corev1.Pod{}, 0)
	b.pods = informer.GetStore()
	see := func(o any) { b.queue.Add(cache.MetaObjectToName(o.(*corev1.Pod))) }
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, o any) { see(o) }})
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, b.queue.ShutDown)()
	over := make(chan struct{})
	go func() {
		defer close(over)
		informer.RunWithContext(ctx)
	}()
	for {
		key, shutdown := b.queue.Get()
		if shutdown {
			<-over
			return nil
		}
		if err := b.bind(ctx, key); err != nil {
			b.queue.AddRateLimited(key)
		} else {
			b.queue.Forget(key)
		}
		b.queue.Done(key)
	}
}

// unbound lists and watches the pods without a node: a pod that gets a node leaves this view.
func (b *binder) unbound() cache.ListerWatcher {
	selector := fields.OneTermEqualSelector("spec.nodeName", "").String()
	pods := b.client.Pods(metav1.NamespaceAll)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			return pods.Watch(ctx, o)
		},
	}, b.client)
}

// bind binds a pod; after an error the caller retries. A binding contains the pod's UID, so a
// decision on an old view does no harm.
func (b *binder) bind(ctx context.Context, key cache.ObjectName) error {
	o, exists, err := b.pods.GetByKey(key.String())
	if err != nil || !exists {
		return err
	}
	pod := o.(*corev1.Pod)
	if pod.DeletionTimestamp != nil || len(pod.Spec.SchedulingGates) > 0 || pod.Spec.SchedulerName != corev1.DefaultSchedulerName {
		return nil
	}
	if err := b.refreshNodes(ctx); err != nil {
		return err
	}
	err = b.client.Pods(key.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: b.nodes[fault.Pick(len(b.nodes), b.seed, "bind", key.String())]},
	}, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err // a pod that got a node meanwhile leaves the view
}

// refreshNodes lists the nodes if the last list is older than maxNodesAge.
func (b *binder) refreshNodes(ctx context.Context) error {
	if len(b.nodes) > 0 && time.Since(b.listedAt) < maxNodesAge {
		return nil
	}
	list, err := b.client.Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	b.nodes, b.listedAt = b.nodes[:0], time.Now()
	for i := range list.Items {
		if n := &list.Items[i]; !n.Spec.Unschedulable && n.DeletionTimestamp == nil {
			b.nodes = append(b.nodes, n.Name)
		}
	}
	if len(b.nodes) == 0 {
		return errNoNode
	}
	return nil
}
