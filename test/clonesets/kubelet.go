package clonesets

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/rehearse-k8s/rehearse/simtest"
)

// Behaviour is how a pod lives. The zero value does everything at once and well.
type Behaviour struct {
	// Unbound leaves a pod without a node, as a scheduler does that finds none for it. So
	// are pods that name a scheduler of their own.
	Unbound bool
	// Start is how long a pod takes from its binding to running containers, and Restart how
	// long a container is down that begins anew, in whole seconds.
	Start, Restart time.Duration
	// Unready are the names of containers that run and are never ready.
	Unready []string
	// SameImage gives all images one ID, as tags of one image have.
	SameImage bool
	// Stop is how long a deleted pod takes to end; it is killed when its grace is over.
	Stop time.Duration
}

// nodes is over how many nodes pods are spread.
const nodes = 3

// kubelet is that of all nodes, and the scheduler.
type kubelet struct {
	client    kubernetes.Interface
	pods      listers.PodLister
	queue     workqueue.TypedRateLimitingInterface[cache.ObjectName]
	behaviour func(*corev1.Pod) Behaviour
	// starting and stopping are since when a pod is known to do so. Only the worker uses
	// them; after a crash the time counts anew.
	starting, stopping map[types.UID]time.Time
}

// Kubelet binds pods and plays their lives. Without a function all pods behave well.
// Every write names the revision or the UID that it was decided on.
func Kubelet(behaviour func(*corev1.Pod) Behaviour) simtest.Constructor {
	if behaviour == nil {
		behaviour = func(*corev1.Pod) Behaviour { return Behaviour{} }
	}
	return func(ctx context.Context, config *rest.Config) error {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		factory := informers.NewSharedInformerFactory(client, 0)
		pods := factory.Core().V1().Pods()
		k := &kubelet{
			client: client, pods: pods.Lister(), behaviour: behaviour,
			starting: map[types.UID]time.Time{}, stopping: map[types.UID]time.Time{},
			queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]()),
		}
		see := func(obj any) { k.queue.Add(cache.MetaObjectToName(obj.(*corev1.Pod))) }
		if _, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    see,
			UpdateFunc: func(_, obj any) { see(obj) },
		}); err != nil {
			return err
		}
		defer context.AfterFunc(ctx, k.queue.ShutDown)()
		factory.Start(ctx.Done())
		defer factory.Shutdown()
		factory.WaitForCacheSync(ctx.Done())
		for k.work(ctx) {
		}
		return nil
	}
}

func (k *kubelet) work(ctx context.Context) bool {
	key, quit := k.queue.Get()
	if quit {
		return false
	}
	defer k.queue.Done(key)
	wake, err := k.sync(ctx, key)
	if err != nil && !apierrors.IsNotFound(err) {
		k.queue.AddRateLimited(key)
		return true
	}
	k.queue.Forget(key)
	if wake > 0 {
		k.queue.AddAfter(key, wake)
	}
	return true
}

// sync does what is due for a pod, and says how long the next thing is away.
func (k *kubelet) sync(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	cached, err := k.pods.Pods(key.Namespace).Get(key.Name)
	if err != nil {
		return 0, err
	}
	pod := cached.DeepCopy()
	b := k.behaviour(pod)
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	now, wake := time.Now(), time.Duration(0)
	switch {
	case pod.DeletionTimestamp != nil:
		return k.stop(ctx, pod, ended, b)
	case ended:
		return 0, nil
	case pod.Spec.NodeName == "":
		return 0, k.bind(ctx, pod, b)
	case pod.Status.Phase != corev1.PodRunning:
		if wake := left(k.starting, pod.UID, b.Start); wake > 0 {
			return wake, nil
		}
		wake = run(pod, b, now)
	default:
		delete(k.starting, pod.UID)
		wake = run(pod, b, now)
	}
	if equality.Semantic.DeepEqual(pod.Status, cached.Status) {
		return wake, nil
	}
	return wake, k.write(ctx, pod)
}

// left is how much of a duration is left that began when this was first asked.
func left(since map[types.UID]time.Time, uid types.UID, of time.Duration) time.Duration {
	if _, ok := since[uid]; !ok {
		since[uid] = time.Now()
	}
	return time.Until(since[uid].Add(of))
}

func (k *kubelet) bind(ctx context.Context, pod *corev1.Pod, b Behaviour) error {
	if b.Unbound || len(pod.Spec.SchedulingGates) > 0 || pod.Spec.SchedulerName != corev1.DefaultSchedulerName {
		return nil
	}
	h := fnv.New32a()
	h.Write([]byte(pod.Name))
	return k.client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: fmt.Sprintf("node-%d", h.Sum32()%nodes)},
	}, metav1.CreateOptions{})
}

// stop ends a pod that is being deleted, and lets it go. If a finalizer holds it, the API
// server lets it go with the last one.
func (k *kubelet) stop(ctx context.Context, pod *corev1.Pod, ended bool, b Behaviour) (time.Duration, error) {
	grace := time.Duration(0)
	if s := pod.DeletionGracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
	}
	if !ended {
		if wake := left(k.stopping, pod.UID, min(b.Stop, grace)); wake > 0 {
			return wake, nil
		}
		end(pod, time.Now())
		return 0, k.write(ctx, pod)
	}
	delete(k.stopping, pod.UID)
	if grace == 0 {
		return 0, nil
	}
	return 0, k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64),
		Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
	})
}

func (k *kubelet) write(ctx context.Context, pod *corev1.Pod) error {
	_, err := k.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}
