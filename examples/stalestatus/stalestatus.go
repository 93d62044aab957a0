// Package stalestatus has a deliberate bug: it renders a status from a cached pod, and writes it
// later, without a resourceVersion.
//
// It reproduces kwok issue 1002 (v0.4.0): an older queued stage ran late and set a Running pod back
// to ContainerCreating. In both, the queue contains the pod as it was when the write was queued,
// and a change of the pod does not remove it from the queue.
//
// Pods are ContainerCreating after a second and Running two seconds later. A failed write is
// retried after five seconds, and that is how a write can be late: the first attempt took effect,
// only its answer was lost, and meanwhile the pod is Running.
package stalestatus

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	podIP         = "10.0.0.1"
	statusPending = "ContainerCreating"
)

// Delays are how long writes are delayed: that of the first status, that of the second, and a
// retry.
type Delays struct{ Creating, Running, Retry time.Duration }

// Usual are the delays that the package comment describes.
var Usual = Delays{Creating: time.Second, Running: 2 * time.Second, Retry: 5 * time.Second}

// write is a status to be written. The queue compares its items, and pointers to different writes
// are never equal: a newer write does not replace an older one.
type write struct {
	namespace, name string
	status          corev1.PodStatus
}

type controller struct {
	delays Delays
	client kubernetes.Interface
	queue  workqueue.TypedDelayingInterface[*write]
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
	c := &controller{delays: d, client: client, queue: workqueue.NewTypedDelayingQueue[*write]()}
	if _, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.observe(obj.(*corev1.Pod)) },
		UpdateFunc: func(_, obj any) { c.observe(obj.(*corev1.Pod)) },
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

// observe queues the status that follows the observed one.
func (c *controller) observe(pod *corev1.Pod) {
	w := &write{namespace: pod.Namespace, name: pod.Name}
	switch {
	case pod.DeletionTimestamp != nil:
	case pod.Status.PodIP == "":
		w.status = status(pod, corev1.PodPending, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: statusPending}})
		c.queue.AddAfter(w, c.delays.Creating)
	case pod.Status.Phase == corev1.PodPending:
		w.status = status(pod, corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
		c.queue.AddAfter(w, c.delays.Running)
	}
}

func status(pod *corev1.Pod, phase corev1.PodPhase, state corev1.ContainerState) corev1.PodStatus {
	s := corev1.PodStatus{Phase: phase, PodIP: podIP}
	ready := corev1.ConditionFalse
	if phase == corev1.PodRunning {
		ready = corev1.ConditionTrue
	}
	s.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	for _, container := range pod.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, Ready: phase == corev1.PodRunning, State: state,
		})
	}
	return s
}

func (c *controller) work(ctx context.Context) bool {
	w, quit := c.queue.Get()
	if quit {
		return false
	}
	defer c.queue.Done(w)
	patch, err := json.Marshal(map[string]any{"status": w.status})
	if err != nil {
		return true
	}
	_, err = c.client.CoreV1().Pods(w.namespace).Patch(ctx, w.name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		c.queue.AddAfter(w, c.delays.Retry)
	}
	return true
}
