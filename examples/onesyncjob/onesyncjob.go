// Package onesyncjob is a controller of batch/v1 Jobs with a deliberate bug: one sync records which
// pods have finished, removes their finalizers, and counts them.
//
// It reproduces kubernetes issue 130103: the Job controller did so up to 1.33. With late events of
// the Job, the next sync observed a pod without the finalizer, which it took for counted, and a
// status in which it was not counted. It created a second pod although parallelism and completions
// were 1. The protection of that controller against late events is here too: it counts the events
// of pods that it expects, and it records removed finalizers by UID. Neither covers events of the
// Job.
//
// It supports parallelism, completions, both completion modes and backoffLimit, and omits what the
// race does not need: back-off, policies, suspension, adoption.
package onesyncjob

import (
	"context"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

type controller struct {
	client kubernetes.Interface
	jobs   batchlisters.JobLister
	pods   listers.PodLister
	queue  workqueue.TypedRateLimitingInterface[cache.ObjectName]

	mu sync.Mutex
	// creates and deletes count the events of own writes that have not arrived.
	creates, deletes map[cache.ObjectName]int
	// released are pods whose finalizer was removed although the cache may still show it.
	released map[types.UID]bool
}

// Run runs the controller until ctx ends.
func Run(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	jobs, pods := factory.Batch().V1().Jobs(), factory.Core().V1().Pods()
	c := &controller{
		client: client, jobs: jobs.Lister(), pods: pods.Lister(),
		queue:   workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]()),
		creates: map[cache.ObjectName]int{}, deletes: map[cache.ObjectName]int{}, released: map[types.UID]bool{},
	}
	job := func(obj any) { c.queue.Add(cache.MetaObjectToName(obj.(*batchv1.Job))) }
	jobEvents, err := jobs.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    job,
		UpdateFunc: func(_, obj any) { job(obj) },
	})
	if err != nil {
		return err
	}
	podEvents, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { c.seen(obj, c.creates) },
		UpdateFunc: func(old, obj any) {
			if old.(*corev1.Pod).DeletionTimestamp == nil && obj.(*corev1.Pod).DeletionTimestamp != nil {
				c.seen(obj, c.deletes)
				return
			}
			c.seen(obj, nil)
		},
		DeleteFunc: func(obj any) {
			if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = t.Obj
			}
			c.seen(obj, c.deletes)
		},
	})
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, c.queue.ShutDown)()
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	// Events of the initial lists do not count as events of own writes.
	cache.WaitForCacheSync(ctx.Done(), jobEvents.HasSynced, podEvents.HasSynced)
	for c.work(ctx) {
	}
	return nil
}

// seen counts an event of a Job's pod if it was expected, and enqueues the Job.
func (c *controller) seen(obj any, expected map[cache.ObjectName]int) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	ref := metav1.GetControllerOf(pod)
	if ref == nil || ref.Kind != "Job" {
		return
	}
	key := cache.NewObjectName(pod.Namespace, ref.Name)
	if expected != nil {
		c.expect(expected, key, -1)
	}
	c.queue.Add(key)
}

func (c *controller) expect(what map[cache.ObjectName]int, key cache.ObjectName, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	what[key] = max(what[key]+n, 0)
}

func (c *controller) satisfied(key cache.ObjectName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.creates[key] == 0 && c.deletes[key] == 0
}

func (c *controller) work(ctx context.Context) bool {
	key, quit := c.queue.Get()
	if quit {
		return false
	}
	defer c.queue.Done(key)
	if err := c.sync(ctx, key); err != nil && !apierrors.IsNotFound(err) {
		c.queue.AddRateLimited(key)
	} else {
		c.queue.Forget(key)
	}
	return true
}
