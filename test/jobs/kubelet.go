package jobs

import (
	"context"
	"encoding/json"
	"maps"
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

	"github.com/rehearse-k8s/rehearse/simtest"
)

// Outcome is what a pod does.
type Outcome struct {
	// After is how long it runs, from its start; 0: until it is deleted.
	After time.Duration
	// Exit is the code that its container ends with. 0 is success.
	Exit int32
	// Stop is how long it takes to end once it is being deleted, and Heeds says that it
	// ends with Exit then too, and not because it was killed.
	Stop  time.Duration
	Heeds bool
	// Late is how long after its container the status says that the pod has ended, unless somebody
	// changes or deletes the pod before: then the kubelet looks at it, and says so at once.
	Late time.Duration
}

// killed is the exit code of a container that was stopped.
const killed = 137

// kubelet is one node's, or all nodes': pods need not be bound.
type kubelet struct {
	client  kubernetes.Interface
	pods    listers.PodLister
	queue   workqueue.TypedRateLimitingInterface[cache.ObjectName]
	outcome func(*corev1.Pod) Outcome
	// stopping is since when a pod is known to be deleted, and reported the last status that was
	// written: the cache may be behind it. Only the worker uses them.
	stopping map[types.UID]time.Time
	reported map[types.UID]corev1.PodStatus
	// changed are pods whose metadata somebody has changed.
	changed sync.Map
}

// Kubelet plays the kubelet: a pod runs and is ready as soon as it is seen, ends as its
// outcome says, and goes when it is deleted. It writes as a real one does (pkg/kubelet/status):
// the status as a strategic merge patch that names the pod's UID and no resourceVersion, so
// that nobody else's write keeps it from landing, late or not; and the last DELETE after that,
// without grace and for that UID. A real one reads the pod first, in order to leave out what
// is so already; this one sends all that kubelets own.
func Kubelet(outcome func(*corev1.Pod) Outcome) simtest.Constructor {
	return func(ctx context.Context, config *rest.Config) error {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		factory := informers.NewSharedInformerFactory(client, 0)
		pods := factory.Core().V1().Pods()
		k := &kubelet{
			client: client, pods: pods.Lister(), outcome: outcome, stopping: map[types.UID]time.Time{}, reported: map[types.UID]corev1.PodStatus{},
			queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]()),
		}
		see := func(obj any) { k.queue.Add(cache.MetaObjectToName(obj.(*corev1.Pod))) }
		if _, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: see,
			UpdateFunc: func(old, obj any) {
				if a, b := old.(*corev1.Pod), obj.(*corev1.Pod); a.UID == b.UID && !sameMetadata(a, b) {
					k.changed.Store(b.UID, true)
				}
				see(obj)
			},
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
	if status, ok := k.reported[pod.UID]; ok {
		pod.Status = status
	}
	o := k.outcome(pod)
	exited := o.exited(pod)
	switch ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed; {
	case pod.DeletionTimestamp != nil:
		return k.stop(ctx, pod, ended, o)
	case ended:
		return 0, nil
	case pod.Status.Phase != corev1.PodRunning:
		now := metav1.Now()
		pod.Status.StartTime = &now
		run(pod)
	case exited.IsZero():
		return 0, nil
	default:
		if _, changed := k.changed.Load(pod.UID); changed {
			o.Late = 0
		}
		if wake := time.Until(exited.Add(o.Late)); wake > 0 {
			return wake, nil
		}
		end(pod, o.Exit, exited)
	}
	return 0, k.write(ctx, pod)
}

// sameMetadata tells whether nobody but the kubelet has changed a pod.
func sameMetadata(a, b *corev1.Pod) bool {
	return slices.Equal(a.Finalizers, b.Finalizers) && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) && len(a.OwnerReferences) == len(b.OwnerReferences)
}

// exited is when the container of a pod that has started exits by itself; zero for never.
func (o Outcome) exited(pod *corev1.Pod) time.Time {
	if o.After == 0 || pod.Status.StartTime == nil {
		return time.Time{}
	}
	return pod.Status.StartTime.Add(o.After)
}

// stop ends a pod that is being deleted, and deletes it.
func (k *kubelet) stop(ctx context.Context, pod *corev1.Pod, ended bool, o Outcome) (time.Duration, error) {
	if _, ok := k.stopping[pod.UID]; !ok {
		k.stopping[pod.UID] = time.Now()
	}
	at, code := k.stopping[pod.UID].Add(o.Stop), int32(killed)
	if o.Heeds {
		code = o.Exit
	}
	if exited := o.exited(pod); !exited.IsZero() && exited.Before(at) {
		at, code = exited, o.Exit
	}
	switch wake := time.Until(at); {
	case ended:
	case wake > 0:
		return wake, nil
	default:
		end(pod, code, at)
		return 0, k.write(ctx, pod)
	}
	if s := pod.DeletionGracePeriodSeconds; s != nil && *s == 0 {
		return 0, nil // a finalizer holds it
	}
	return 0, k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64),
		Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
	})
}

func (k *kubelet) write(ctx context.Context, pod *corev1.Pod) error {
	status := map[string]any{
		"phase": pod.Status.Phase, "startTime": pod.Status.StartTime, "containerStatuses": pod.Status.ContainerStatuses, "conditions": pod.Status.Conditions,
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return err
	}
	if _, err := k.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return err
	}
	k.reported[pod.UID] = pod.Status
	return nil
}

func run(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodRunning
	state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	report(pod, state, corev1.ConditionTrue)
}

func end(pod *corev1.Pod, code int32, at time.Time) {
	pod.Status.Phase = corev1.PodSucceeded
	if code != 0 {
		pod.Status.Phase = corev1.PodFailed
	}
	state := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.NewTime(at)}}
	report(pod, state, corev1.ConditionFalse)
}

// report writes down what all containers are in, and whether the pod is ready. Other
// conditions are not the kubelet's, and stay as they are: conditions are merged by type.
func report(pod *corev1.Pod, state corev1.ContainerState, ready corev1.ConditionStatus) {
	pod.Status.ContainerStatuses = nil
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, State: state, Ready: ready == corev1.ConditionTrue,
		})
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()}}
}
