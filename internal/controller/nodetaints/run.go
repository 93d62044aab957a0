package nodetaints

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// The delays between attempts for a node whose update fails: the first is short, because most failures are conflicts
// with the status of the node.
const (
	minRetry = 5 * time.Millisecond
	maxRetry = 10 * time.Second
)

// New prepares the controller and returns the function that runs it until its context ends.
func New(config *rest.Config) (func(context.Context), error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	c := &controller{
		client: client,
		nodes:  factory.Core().V1().Nodes().Informer(),
		queue:  workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](minRetry, maxRetry)),
	}
	enqueue := func(o any) { c.queue.Add(o.(*corev1.Node).Name) }
	_, err = c.nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: enqueue, UpdateFunc: func(_, o any) { enqueue(o) }})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		defer factory.Shutdown()
		defer context.AfterFunc(ctx, c.queue.ShutDown)()
		factory.Start(ctx.Done())
		for c.next(ctx) {
		}
	}, nil
}

type controller struct {
	client kubernetes.Interface
	nodes  cache.SharedIndexInformer
	queue  workqueue.TypedRateLimitingInterface[string]
}

// next handles one node. It returns false when the queue is shut down.
func (c *controller) next(ctx context.Context) bool {
	name, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(name)
	switch err := c.reconcile(ctx, name); {
	case err == nil || apierrors.IsNotFound(err):
		c.queue.Forget(name)
	default:
		if !apierrors.IsConflict(err) && ctx.Err() == nil {
			slog.Warn("update the taints of a node", "node", name, "error", err)
		}
		c.queue.AddRateLimited(name)
	}
	return true
}

// reconcile updates the taints of a node. The update carries the resourceVersion of the cached node, so a decision on
// an outdated one has no effect.
func (c *controller) reconcile(ctx context.Context, name string) error {
	cached, exists, err := c.nodes.GetStore().GetByKey(name)
	if err != nil || !exists {
		return err
	}
	node := cached.(*corev1.Node)
	taints, change := Plan(metav1.Now(), node)
	if !change || node.DeletionTimestamp != nil {
		return nil
	}
	node = node.DeepCopy()
	node.Spec.Taints = taints
	_, err = c.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
	return err
}
