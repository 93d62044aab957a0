// Package expectations has a deliberate bug: it counts the events that its own writes should cause,
// and does nothing until it has received them.
//
// It reproduces kruise issue 1785 (open; the fix 1829 is off by default): a pod was created and
// deleted while the watch was disconnected, and the new list did not contain it. Neither event ever
// arrived, and the CloneSet waited until a user restarted the controller. The counters are those of
// the ReplicaSet controller, without its timeout of five minutes.
//
// A ConfigMap with the label [Label] is the set, and its key "replicas" is the wanted number of
// pods.
package expectations

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Label marks the ConfigMaps that are sets of pods.
const Label = "rehearse.example/replicas"

// expected counts the events of own writes that have not been observed.
type expected struct{ creates, deletes int }

type controller struct {
	client kubernetes.Interface
	sets   listers.ConfigMapLister
	pods   listers.PodLister
	queue  workqueue.TypedRateLimitingInterface[cache.ObjectName]

	mu       sync.Mutex
	expected map[cache.ObjectName]expected
}

// Run runs the controller until ctx ends.
func Run(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	sets, pods := factory.Core().V1().ConfigMaps(), factory.Core().V1().Pods()
	c := &controller{
		client: client, sets: sets.Lister(), pods: pods.Lister(),
		queue:    workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]()),
		expected: map[cache.ObjectName]expected{},
	}
	set := func(obj any) { c.queue.Add(cache.MetaObjectToName(obj.(*corev1.ConfigMap))) }
	if _, err := sets.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    set,
		UpdateFunc: func(_, obj any) { set(obj) },
	}); err != nil {
		return err
	}
	if _, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.seen(obj, -1, 0) },
		UpdateFunc: func(_, obj any) { c.seen(obj, 0, 0) },
		DeleteFunc: func(obj any) {
			if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = t.Obj
			}
			c.seen(obj, 0, -1)
		},
	}); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, c.queue.ShutDown)()
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	factory.WaitForCacheSync(ctx.Done())
	for c.work(ctx) {
	}
	return nil
}

// seen counts an event of a pod that belongs to a set.
func (c *controller) seen(obj any, creates, deletes int) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	ref := metav1.GetControllerOf(pod)
	if ref == nil || ref.Kind != "ConfigMap" {
		return
	}
	key := cache.NewObjectName(pod.Namespace, ref.Name)
	c.expect(key, creates, deletes)
	c.queue.Add(key)
}

func (c *controller) expect(key cache.ObjectName, creates, deletes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.expected[key]
	c.expected[key] = expected{max(e.creates+creates, 0), max(e.deletes+deletes, 0)}
}

func (c *controller) satisfied(key cache.ObjectName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.expected[key] == expected{}
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

func (c *controller) sync(ctx context.Context, key cache.ObjectName) error {
	set, err := c.sets.ConfigMaps(key.Namespace).Get(key.Name)
	if err != nil {
		return err
	}
	if set.Labels[Label] == "" || !c.satisfied(key) {
		return nil // an event should arrive and cause the next sync
	}
	want, err := strconv.Atoi(set.Data["replicas"])
	if err != nil {
		return nil
	}
	all, err := c.pods.Pods(key.Namespace).List(labels.Everything())
	if err != nil {
		return err
	}
	var pods []*corev1.Pod
	for _, pod := range all {
		if metav1.IsControlledBy(pod, set) && pod.DeletionTimestamp == nil {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for range want - len(pods) {
		c.expect(key, +1, 0)
		if _, err := c.client.CoreV1().Pods(key.Namespace).Create(ctx, podOf(set), metav1.CreateOptions{}); err != nil {
			c.expect(key, -1, 0)
			return err
		}
	}
	for _, pod := range pods[:max(len(pods)-want, 0)] {
		c.expect(key, 0, +1)
		if err := c.client.CoreV1().Pods(key.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
			c.expect(key, 0, -1)
			return err
		}
	}
	return nil
}

func podOf(set *corev1.ConfigMap) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName:    set.Name + "-",
			Namespace:       set.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, corev1.SchemeGroupVersion.WithKind("ConfigMap"))},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}
}
