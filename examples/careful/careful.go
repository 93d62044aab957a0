// Package careful is the correct counterpart of the naive examples: a ConfigMap with the label
// [Label] is a job ("completions" pods must succeed) or a set (there must be "replicas" pods), and
// the controller tolerates every order of events that Kubernetes may produce.
//
// What it does differently:
//   - It counts no events. It records the revision of its own last write and waits until the caches have reached it. A relist reaches it too, and after it has created a pod the controller checks again even if no event arrives, so it cannot hang.
//   - Pod names are derived from (owner's UID, slot). A create that is repeated, or decided on a cache without the pod, is answered AlreadyExists.
//   - It counts slots, not pods, so counting twice has no effect.
//   - It has three phases, each decided only on a snapshot that shows the previous one: record which slots succeeded; release their pods; report that the job is complete.
//   - It reads pods before their owner, and before it creates or deletes a pod it reads the owner again, live.
//   - Every write carries the UID and revision that it was decided on.
//
// It avoids the bugs kubernetes 130103 and kruise 1785, and others of the same kind.
package careful

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	// Label marks the ConfigMaps that the controller manages.
	Label = "rehearse.example/careful"
	// Slot is the label of a pod with its number among its owner's pods.
	Slot = "rehearse.example/slot"
	// Finalizer keeps a job's pods until they are counted.
	Finalizer = "rehearse.example/careful"
)

type controller struct {
	client kubernetes.Interface
	owners listers.ConfigMapLister
	pods   listers.PodLister
	queue  workqueue.TypedRateLimitingInterface[cache.ObjectName]
	fresh  *freshness
}

// Run runs the controller until ctx ends.
func Run(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	owners, pods := factory.Core().V1().ConfigMaps(), factory.Core().V1().Pods()
	c := &controller{
		client: client, owners: owners.Lister(), pods: pods.Lister(),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]()),
		fresh: newFreshness(owners.Informer().GetStore(), pods.Informer().GetStore()),
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: c.see, UpdateFunc: func(_, obj any) { c.see(obj) }, DeleteFunc: c.see}
	for _, informer := range []cache.SharedIndexInformer{owners.Informer(), pods.Informer()} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	defer context.AfterFunc(ctx, c.queue.ShutDown)()
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	factory.WaitForCacheSync(ctx.Done())
	for c.work(ctx) {
	}
	return nil
}

// see enqueues the owner of any changed object. It filters nothing.
func (c *controller) see(obj any) {
	if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = t.Obj
	}
	switch obj := obj.(type) {
	case *corev1.ConfigMap:
		c.queue.Add(cache.MetaObjectToName(obj))
	case *corev1.Pod:
		if ref := metav1.GetControllerOf(obj); ref != nil && ref.Kind == "ConfigMap" {
			c.queue.Add(cache.NewObjectName(obj.Namespace, ref.Name))
		}
	}
}

func (c *controller) work(ctx context.Context) bool {
	key, quit := c.queue.Get()
	if quit {
		return false
	}
	defer c.queue.Done(key)
	wake, err := c.sync(ctx, key)
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		c.queue.AddRateLimited(key)
	case wake > 0:
		c.queue.AddAfter(key, wake)
	default:
		c.queue.Forget(key)
	}
	return true
}
