// Package kubelet plays the part of all kubelets, small and right: pods start after
// half a second and are ready, pods that are not to be restarted succeed five seconds
// later, and pods that are being deleted stop and go.
//
// It is a controller like any other, for the worlds of the other examples: pods need
// no node. Every write names the revision it was decided on, and delays count from when
// this process saw a pod or from what it wrote into the pod itself, never from another
// clock, so that late events, lost answers and restarts change nothing but the moment.
package kubelet

import (
	"context"
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

const (
	startsAfter   = 500 * time.Millisecond
	succeedsAfter = 5 * time.Second
)

type kubelet struct {
	client kubernetes.Interface
	pods   listers.PodLister
	queue  workqueue.TypedRateLimitingInterface[cache.ObjectName]
	// seen is when a pod was first looked at. Only the worker uses it.
	seen map[types.UID]time.Time
}

// Run plays until ctx ends.
func Run(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods()
	k := &kubelet{
		client: client, pods: pods.Lister(), seen: map[types.UID]time.Time{},
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

func (k *kubelet) work(ctx context.Context) bool {
	key, quit := k.queue.Get()
	if quit {
		return false
	}
	defer k.queue.Done(key)
	wake, err := k.sync(ctx, key)
	switch {
	case apierrors.IsNotFound(err):
		k.queue.Forget(key)
	case err != nil:
		k.queue.AddRateLimited(key)
	default:
		k.queue.Forget(key)
		if wake > 0 {
			k.queue.AddAfter(key, wake)
		}
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
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case pod.DeletionTimestamp != nil && !ended:
		set(pod, corev1.PodFailed, corev1.ConditionFalse)
	case pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds > 0:
		return 0, k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64),
			Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
		})
	case ended || pod.DeletionTimestamp != nil:
		return 0, nil
	case pod.Status.Phase != corev1.PodRunning:
		if _, ok := k.seen[pod.UID]; !ok {
			k.seen[pod.UID] = time.Now()
		}
		if wake := time.Until(k.seen[pod.UID].Add(startsAfter)); wake > 0 {
			return wake, nil
		}
		now := metav1.Now()
		pod.Status.StartTime = &now
		set(pod, corev1.PodRunning, corev1.ConditionTrue)
	case pod.Spec.RestartPolicy == corev1.RestartPolicyNever:
		if wake := time.Until(pod.Status.StartTime.Add(succeedsAfter)); wake > 0 {
			return wake, nil
		}
		set(pod, corev1.PodSucceeded, corev1.ConditionFalse)
	default:
		return 0, nil
	}
	_, err = k.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	if err == nil {
		delete(k.seen, pod.UID)
	}
	return 0, err
}

func set(pod *corev1.Pod, phase corev1.PodPhase, ready corev1.ConditionStatus) {
	pod.Status.Phase = phase
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()}}
}
