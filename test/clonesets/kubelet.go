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
	podutil "k8s.io/kubernetes/pkg/util/pod"

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

	// Notice is how long a change of a pod takes from the API to its containers: until then
	// the kubelet works with the pod as it was. Kill is how long a container whose spec has
	// changed runs on while the status says already that the change was observed. Report is
	// how long a status takes to be written.
	Notice, Kill, Report time.Duration
	// Crash is how long the first container of a pod runs until it crashes, once; CrashOnChange
	// is how long after a change of the spec has reached the node, once for each change. 0: never.
	// A container that crashes is restarted as the kubelet knows it, maybe from the old spec.
	Crash, CrashOnChange time.Duration
	// Resize is how long a resize takes that needs no restart.
	Resize time.Duration
}

// nodes is over how many nodes pods are spread.
const nodes = 3

// kubelet is one life of that of all nodes, and of the scheduler.
type kubelet struct {
	client    kubernetes.Interface
	pods      listers.PodLister
	queue     workqueue.TypedRateLimitingInterface[cache.ObjectName]
	behaviour func(*corev1.Pod) Behaviour
	runtime   *containerRuntime
	// workers are what it knows of pods. Only its own goroutine uses them; after a crash the
	// times count anew.
	workers map[types.UID]*worker
}

// worker is what a kubelet knows of one pod.
type worker struct {
	// starting and stopping are since when the pod is known to do so, changed and written
	// since when a change of it waits to be noticed, and a status to be written.
	starting, stopping, changed, written time.Time
	// pod is the pod as the containers know it.
	pod *corev1.Pod
}

// Kubelet binds pods and plays their lives. Without a function all pods behave well. It
// writes as real kubelets do: what has changed of a status, as a strategic merge patch with
// the pod's UID and without a resourceVersion, whatever others have written in between.
func Kubelet(behaviour func(*corev1.Pod) Behaviour) simtest.Constructor {
	if behaviour == nil {
		behaviour = func(*corev1.Pod) Behaviour { return Behaviour{} }
	}
	containers := newRuntime() // they run on when the kubelet crashes
	return func(ctx context.Context, config *rest.Config) error {
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		factory := informers.NewSharedInformerFactory(client, 0)
		pods := factory.Core().V1().Pods()
		k := &kubelet{
			client: client, pods: pods.Lister(), behaviour: behaviour, runtime: containers, workers: map[types.UID]*worker{},
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
	b := k.behaviour(cached)
	w := k.workers[cached.UID]
	if w == nil {
		w = &worker{}
		k.workers[cached.UID] = w
	}
	ended := cached.Status.Phase == corev1.PodSucceeded || cached.Status.Phase == corev1.PodFailed
	now := time.Now()
	switch {
	case cached.DeletionTimestamp != nil:
		return k.stop(ctx, w, cached, ended, b)
	case ended:
		return 0, nil
	case cached.Spec.NodeName == "":
		return 0, k.bind(ctx, cached, b)
	case cached.Status.Phase != corev1.PodRunning:
		if wake := left(&w.starting, b.Start); wake > 0 {
			return wake, nil
		}
	}
	wake := w.notice(cached, b)
	status, next := k.runtime.run(w.pod, cached, b, now)
	wake = sooner(wake, next)
	if equality.Semantic.DeepEqual(status, &cached.Status) {
		w.written = time.Time{}
		return wake, nil
	}
	if wait := left(&w.written, b.Report); wait > 0 {
		return sooner(wake, wait), nil
	}
	return wake, k.write(ctx, w, cached, status)
}

// notice takes over what has changed of a pod, once it is time, and says how long that is away.
func (w *worker) notice(cached *corev1.Pod, b Behaviour) time.Duration {
	if w.pod != nil && differs(w.pod, cached) {
		if wait := left(&w.changed, b.Notice); wait > 0 {
			return wait
		}
	}
	w.pod, w.changed = cached, time.Time{}
	return 0
}

// differs tells whether two versions of a pod differ in anything that a kubelet reads: its
// own status is not among it.
func differs(a, b *corev1.Pod) bool {
	if a.Generation != b.Generation || !equality.Semantic.DeepEqual(a.Labels, b.Labels) || !equality.Semantic.DeepEqual(a.Annotations, b.Annotations) {
		return true
	}
	for _, gate := range b.Spec.ReadinessGates {
		if !equality.Semantic.DeepEqual(conditionOf(a, gate.ConditionType), conditionOf(b, gate.ConditionType)) {
			return true
		}
	}
	return false
}

// left is how much of a duration is left that began when this was first asked.
func left(since *time.Time, of time.Duration) time.Duration {
	if since.IsZero() {
		*since = time.Now()
	}
	return time.Until(since.Add(of))
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
func (k *kubelet) stop(ctx context.Context, w *worker, cached *corev1.Pod, ended bool, b Behaviour) (time.Duration, error) {
	grace := time.Duration(0)
	if s := cached.DeletionGracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
	}
	if !ended {
		if wake := left(&w.stopping, min(b.Stop, grace)); wake > 0 {
			return wake, nil
		}
		pod := cached.DeepCopy()
		end(pod, time.Now())
		return 0, k.write(ctx, w, cached, &pod.Status)
	}
	if grace == 0 {
		return 0, nil
	}
	return 0, k.client.CoreV1().Pods(cached.Namespace).Delete(ctx, cached.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64),
		Preconditions:      metav1.NewUIDPreconditions(string(cached.UID)),
	})
}

// write sends what differs from the status that the kubelet has seen, in the way of upstream's
// status manager.
func (k *kubelet) write(ctx context.Context, w *worker, was *corev1.Pod, status *corev1.PodStatus) error {
	_, _, _, err := podutil.PatchPodStatus(ctx, k.client, was.Namespace, was.Name, was.UID, was.Status, *status)
	if err == nil {
		w.written = time.Time{}
	}
	return err
}
