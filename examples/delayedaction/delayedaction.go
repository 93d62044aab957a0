// Package delayedaction has a deliberate bug: actions on pods wait in a table and are cancelled
// when the pod changes, but their entries stay in the table.
//
// It reproduces kwok issue 958 (v0.5.0): the job of a delayed stage was cancelled, its entry in a
// map next to the queue remained, later events of the pod were skipped because of it, and pods
// stayed Terminating.
//
// The controller simulates the lifecycle of pods that have its finalizer: a pod is ready two
// seconds after it was observed, and released five seconds after it was deleted. The bug appears
// when an answer is lost: the release takes effect and is scheduled for a retry, the end of the pod
// cancels the retry, and the entry "release" stays. When a later pod of the same name is deleted,
// as with a StatefulSet, its release seems to be queued already.
package delayedaction

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Finalizer marks the pods that the controller manages, and keeps them until it releases them.
const Finalizer = "rehearse.example/played"

const (
	ready   = "ready"
	release = "release"
)

// Delays are how long actions are delayed.
type Delays struct{ Ready, Release, Retry time.Duration }

// Usual are the delays that the package comment describes.
var Usual = Delays{Ready: 2 * time.Second, Release: 5 * time.Second, Retry: 3 * time.Second}

// entry is the key of a scheduled action.
type entry struct {
	pod  cache.ObjectName
	kind string
}

// action is a scheduled action.
type action struct {
	timer     *time.Timer
	cancelled bool
}

type controller struct {
	delays map[string]time.Duration
	retry  time.Duration
	client kubernetes.Interface
	pods   listers.PodLister
	queue  workqueue.TypedInterface[entry]

	mu    sync.Mutex
	table map[entry]*action
}

// Run runs the controller until ctx ends.
func Run(ctx context.Context, config *rest.Config) error { return Usual.Run(ctx, config) }

// Run runs the controller with these delays until ctx ends.
func (d Delays) Run(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods()
	c := &controller{
		delays: map[string]time.Duration{ready: d.Ready, release: d.Release}, retry: d.Retry,
		client: client, pods: pods.Lister(), queue: workqueue.NewTyped[entry](), table: map[entry]*action{},
	}
	see := func(obj any) {
		pod := obj.(*corev1.Pod)
		c.observe(cache.MetaObjectToName(pod), next(pod))
	}
	if _, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, obj any) { see(obj) },
		DeleteFunc: func(obj any) {
			if key, err := cache.DeletionHandlingObjectToName(obj); err == nil {
				c.observe(key, "")
			}
		},
	}); err != nil {
		return err
	}
	defer c.stop()
	defer context.AfterFunc(ctx, c.queue.ShutDown)()
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	factory.WaitForCacheSync(ctx.Done())
	for c.work(ctx) {
	}
	return nil
}

// next returns the next action of a pod; "" for none.
func next(pod *corev1.Pod) string {
	switch {
	case !slices.Contains(pod.Finalizers, Finalizer):
		return ""
	case pod.DeletionTimestamp != nil:
		return release
	case pod.Status.Phase != corev1.PodRunning:
		return ready
	}
	return ""
}

// observe schedules the next action of a pod, and cancels the previous one.
func (c *controller) observe(pod cache.ObjectName, kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for other := range c.delays {
		if a := c.table[entry{pod, other}]; a != nil && other != kind {
			a.cancelled = true // the bug: the entry stays in the table
			a.timer.Stop()
		}
	}
	e := entry{pod, kind}
	if kind == "" || c.table[e] != nil {
		return // no action is due, or it is already scheduled
	}
	c.table[e] = &action{timer: time.AfterFunc(c.delays[kind], func() { c.queue.Add(e) })}
}

func (c *controller) work(ctx context.Context) bool {
	e, quit := c.queue.Get()
	if quit {
		return false
	}
	defer c.queue.Done(e)
	err := c.do(ctx, e.pod, e.kind)
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.table[e]
	switch {
	case err == nil || apierrors.IsNotFound(err):
		delete(c.table, e)
	case !a.cancelled:
		a.timer.Reset(c.retry)
	}
	return true
}

func (c *controller) do(ctx context.Context, key cache.ObjectName, kind string) error {
	pods := c.client.CoreV1().Pods(key.Namespace)
	if kind == ready {
		patch := `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`
		_, err := pods.Patch(ctx, key.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		return err
	}
	pod, err := c.pods.Pods(key.Namespace).Get(key.Name)
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(slices.Clone(pod.Finalizers), func(f string) bool { return f == Finalizer })
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": rest}})
	if err != nil {
		return err
	}
	_, err = pods.Patch(ctx, key.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// stop stops all timers.
func (c *controller) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.table {
		a.timer.Stop()
	}
}
