// Package finalizerfilter has a deliberate bug: to save work it drops updates that change nothing
// it decides on, and its filter omits finalizers.
//
// It reproduces kruise issue 2057 (since 1.4): with CloneSetEventHandlerOptimization the event
// filter dropped the change that the PreNormal hook waits for, a finalizer that another client
// added, and pods stayed PreparingNormal.
//
// The controller marks pods as Normal once another controller, [Hook], has registered them by
// adding a finalizer. Usually that happens before the pod runs, so the event of the pod's start
// carries the finalizer too. When the hook is slow, no event passes the filter any more.
package finalizerfilter

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

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
	// State is the label of the pods that the controller manages.
	State = "rehearse.example/state"
	// Preparing is a pod's state until it is registered, Normal its state afterwards.
	Preparing = "PreparingNormal"
	Normal    = "Normal"
	// Registered is the finalizer of registered pods.
	Registered = "rehearse.example/registered"
)

// Run runs the controller until ctx ends.
func Run(ctx context.Context, config *rest.Config) error {
	return run(ctx, config, relevant, func(pod *corev1.Pod) map[string]any {
		if pod.Labels[State] != Preparing || !slices.Contains(pod.Finalizers, Registered) {
			return nil
		}
		return map[string]any{"labels": map[string]any{State: Normal}}
	})
}

// Hook runs the controller that registers pods. It filters nothing.
func Hook(ctx context.Context, config *rest.Config) error {
	everything := func(_, _ *corev1.Pod) bool { return true }
	return run(ctx, config, everything, func(pod *corev1.Pod) map[string]any {
		if pod.Labels[State] == "" || slices.Contains(pod.Finalizers, Registered) || pod.DeletionTimestamp != nil {
			return nil
		}
		return map[string]any{"finalizers": append(slices.Clone(pod.Finalizers), Registered)}
	})
}

// relevant reports whether an update causes a sync. It must compare everything that the controller
// decides on; finalizers are missing.
func relevant(old, pod *corev1.Pod) bool {
	return !maps.Equal(old.Labels, pod.Labels) ||
		old.Generation != pod.Generation ||
		old.Status.Phase != pod.Status.Phase ||
		(old.DeletionTimestamp == nil) != (pod.DeletionTimestamp == nil)
}

// run is the loop of both controllers: observe a pod, decide on a change of its metadata, patch it.
func run(ctx context.Context, config *rest.Config, filter func(old, pod *corev1.Pod) bool, decide func(*corev1.Pod) map[string]any) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())
	if _, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { queue.Add(cache.MetaObjectToName(obj.(*corev1.Pod))) },
		UpdateFunc: func(old, obj any) {
			if filter(old.(*corev1.Pod), obj.(*corev1.Pod)) {
				queue.Add(cache.MetaObjectToName(obj.(*corev1.Pod)))
			}
		},
	}); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, queue.ShutDown)()
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	factory.WaitForCacheSync(ctx.Done())
	for {
		key, quit := queue.Get()
		if quit {
			return nil
		}
		pod, err := pods.Lister().Pods(key.Namespace).Get(key.Name)
		if err == nil {
			err = change(ctx, client, pod, decide(pod))
		}
		if err != nil && !apierrors.IsNotFound(err) {
			queue.AddRateLimited(key)
		} else {
			queue.Forget(key)
		}
		queue.Done(key)
	}
}

// change patches a pod's metadata, unless the pod has been replaced by another one.
func change(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, metadata map[string]any) error {
	if metadata == nil {
		return nil
	}
	metadata["uid"], metadata["resourceVersion"] = pod.UID, pod.ResourceVersion
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}
