package kubelet

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	podutil "k8s.io/kubernetes/pkg/util/pod"
)

// Life is what a kubelet does with pods. One goroutine calls Sync.
type Life interface {
	// Changed is called by the informer for each update of a pod, before Sync.
	Changed(before, after *corev1.Pod)
	// Sync does what is due for a pod, and returns after how long it must be called again; 0 is for the next event only.
	// An error other than NotFound is retried with back-off.
	Sync(ctx context.Context, pods Pods, pod *corev1.Pod) (time.Duration, error)
}

// Pods writes pods as real kubelets do (pkg/kubelet/status).
type Pods struct{ Client kubernetes.Interface }

// WriteStatus sends what differs between the observed status and the new one, as a strategic merge patch with the UID and
// without a resourceVersion: a concurrent write of another client does not reject it, however late it arrives.
func (p Pods) WriteStatus(ctx context.Context, observed *corev1.Pod, status *corev1.PodStatus) error {
	_, _, _, err := podutil.PatchPodStatus(ctx, p.Client, observed.Namespace, observed.Name, observed.UID, observed.Status, *status)
	return err
}

// Remove sends the last DELETE, without a grace period and for this UID only.
func (p Pods) Remove(ctx context.Context, pod *corev1.Pod) error {
	return p.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64),
		Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
	})
}

// Finished reports whether a pod has Succeeded or Failed.
func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Serve watches all pods and calls life for each, until ctx ends.
func Serve(ctx context.Context, config *rest.Config, life Life) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Pods()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())
	enqueue := func(obj any) { queue.Add(cache.MetaObjectToName(obj.(*corev1.Pod))) }
	if _, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue,
		UpdateFunc: func(before, after any) {
			life.Changed(before.(*corev1.Pod), after.(*corev1.Pod))
			enqueue(after)
		},
	}); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, queue.ShutDown)()
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	factory.WaitForCacheSync(ctx.Done())
	sync := func(key cache.ObjectName) (time.Duration, error) {
		pod, err := informer.Lister().Pods(key.Namespace).Get(key.Name)
		if err != nil {
			return 0, err
		}
		return life.Sync(ctx, Pods{client}, pod)
	}
	for {
		key, quit := queue.Get()
		if quit {
			return nil
		}
		wake, err := sync(key)
		if err != nil && !apierrors.IsNotFound(err) {
			queue.AddRateLimited(key)
		} else {
			queue.Forget(key)
			if wake > 0 {
				queue.AddAfter(key, wake)
			}
		}
		queue.Done(key)
	}
}
