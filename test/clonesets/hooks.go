package clonesets

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
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

	"github.com/rehearse-k8s/rehearse/api/kruise"
)

// Hooks is a controller that completes the hooks of pods, as those of load balancers and registries do. It
// knows its handlers and nothing of the CloneSet.
//
//   - While a pod is PreparingDelete or PreparingUpdate it drains the pod, and then removes
//     the handlers of that hook.
//   - It adds those of inPlaceUpdate to a pod that is Updated, and those of preDelete to
//     one that is PreparingNormal or Normal.
//   - It adds those of preNormal to a pod that is PreparingNormal once its containers are
//     ready, or earlier.
//   - It removes its handlers from terminating pods.
//
// Every write has the revision that it was decided on as a precondition.
type Hooks struct {
	PreDelete, InPlaceUpdate, PreNormal *kruise.LifecycleHook
	// Drain is how long a pod takes to be drained, and Register how long a pod must be ready before it gets
	// its preNormal handlers.
	Drain, Register time.Duration
	// Early registers pods before their containers are ready.
	Early bool
	// OneByOne adds and removes one handler at a time, a second apart.
	OneByOne bool
	// Never reports whether the controller ignores a pod in a state; nil: it ignores none.
	Never func(pod *corev1.Pod, in kruise.LifecycleState) bool
}

// hookController is one instance of the controller.
type hookController struct {
	Hooks
	client kubernetes.Interface
	// since is when a pod was first observed in a state; after a crash the time starts again.
	since map[waits]time.Time
}

type waits struct {
	pod types.UID
	in  kruise.LifecycleState
}

// Run is the constructor of the controller.
func (h Hooks) Run(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())
	see := func(obj any) { queue.Add(cache.MetaObjectToName(obj.(*corev1.Pod))) }
	if _, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, obj any) { see(obj) },
	}); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, queue.ShutDown)()
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	factory.WaitForCacheSync(ctx.Done())
	c := &hookController{Hooks: h, client: client, since: map[waits]time.Time{}}
	for {
		key, quit := queue.Get()
		if quit {
			return nil
		}
		wake := time.Duration(0)
		pod, err := pods.Lister().Pods(key.Namespace).Get(key.Name)
		if err == nil {
			wake, err = c.sync(ctx, pod)
		}
		switch {
		case err != nil && !apierrors.IsNotFound(err):
			queue.AddRateLimited(key)
		case wake > 0:
			queue.Forget(key)
			queue.AddAfter(key, wake)
		default:
			queue.Forget(key)
		}
		queue.Done(key)
	}
}

// sync takes the step that is due for a pod, and returns when the next one is due.
func (c *hookController) sync(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	next := pod.DeepCopy()
	wake := c.change(next)
	if maps.Equal(pod.Labels, next.Labels) && slices.Equal(pod.Finalizers, next.Finalizers) {
		return wake, nil
	}
	metadata := map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion}
	if !slices.Equal(pod.Finalizers, next.Finalizers) {
		metadata["finalizers"] = next.Finalizers
	}
	labels := map[string]any{}
	for key := range pod.Labels {
		if _, ok := next.Labels[key]; !ok {
			labels[key] = nil
		}
	}
	for key, value := range next.Labels {
		if have, ok := pod.Labels[key]; !ok || have != value {
			labels[key] = value
		}
	}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return 0, err
	}
	_, err = c.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return wake, err
}

// change adds and removes the handlers of a pod.
func (c *hookController) change(pod *corev1.Pod) time.Duration {
	if pod.DeletionTimestamp != nil {
		for _, h := range []*kruise.LifecycleHook{c.PreDelete, c.InPlaceUpdate, c.PreNormal} {
			if h != nil {
				pod.Finalizers = slices.DeleteFunc(pod.Finalizers, func(f string) bool { return slices.Contains(h.FinalizersHandler, f) })
			}
		}
		return 0
	}
	state := kruise.LifecycleState(pod.Labels[kruise.LabelState])
	if c.Never != nil && c.Never(pod, state) {
		return 0
	}
	ended := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	switch state {
	case kruise.StatePreparingDelete:
		return c.take(pod, state, c.PreDelete)
	case kruise.StatePreparingUpdate:
		return c.take(pod, state, c.InPlaceUpdate)
	case kruise.StateUpdated:
		return c.put(pod, c.InPlaceUpdate)
	case kruise.StatePreparingNormal:
		ready := conditionOf(pod, corev1.ContainersReady)
		up := c.Early || ready != nil && ready.Status == corev1.ConditionTrue
		if wake := c.put(pod, c.PreDelete); wake > 0 || ended || !up || c.PreNormal == nil {
			return wake
		}
		if wake := c.left(pod, state, c.Register); wake > 0 {
			return wake
		}
		return c.put(pod, c.PreNormal)
	case kruise.StateNormal:
		if !ended {
			return c.put(pod, c.PreDelete)
		}
	}
	return 0
}

func (c *hookController) left(pod *corev1.Pod, in kruise.LifecycleState, of time.Duration) time.Duration {
	k := waits{pod.UID, in}
	if _, ok := c.since[k]; !ok {
		c.since[k] = time.Now()
	}
	return time.Until(c.since[k].Add(of))
}

// take removes the handlers of a hook, once the pod has been drained.
func (c *hookController) take(pod *corev1.Pod, in kruise.LifecycleState, h *kruise.LifecycleHook) time.Duration {
	if h == nil {
		return 0
	}
	if wake := c.left(pod, in, c.Drain); wake > 0 {
		return wake
	}
	done := 0
	for _, key := range slices.Sorted(maps.Keys(h.LabelsHandler)) {
		if pod.Labels[key] == h.LabelsHandler[key] {
			if c.OneByOne && done > 0 {
				return time.Second
			}
			delete(pod.Labels, key)
			done++
		}
	}
	for _, f := range h.FinalizersHandler {
		if i := slices.Index(pod.Finalizers, f); i >= 0 {
			if c.OneByOne && done > 0 {
				return time.Second
			}
			pod.Finalizers = slices.Delete(pod.Finalizers, i, i+1)
			done++
		}
	}
	delete(c.since, waits{pod.UID, in})
	return 0
}

// put adds the handlers of a hook.
func (c *hookController) put(pod *corev1.Pod, h *kruise.LifecycleHook) time.Duration {
	if h == nil {
		return 0
	}
	done := 0
	for _, key := range slices.Sorted(maps.Keys(h.LabelsHandler)) {
		if pod.Labels[key] != h.LabelsHandler[key] {
			if c.OneByOne && done > 0 {
				return time.Second
			}
			pod.Labels[key] = h.LabelsHandler[key]
			done++
		}
	}
	for _, f := range h.FinalizersHandler {
		if !slices.Contains(pod.Finalizers, f) {
			if c.OneByOne && done > 0 {
				return time.Second
			}
			pod.Finalizers = append(pod.Finalizers, f)
			done++
		}
	}
	return 0
}
