package clonesets

import (
	"context"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// protection is the finalizer that the API server adds to claims.
const protection = "kubernetes.io/pvc-protection"

// Claims removes the protection finalizer of terminating claims that no pod uses: a small version of
// upstream's controller (pkg/controller/volume/pvcprotection). A claim in use stays terminating until its pod
// is gone. A pod that was created after its claim started to terminate does not use it, because the scheduler
// would not bind the pod.
func Claims(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods, claims := factory.Core().V1().Pods(), factory.Core().V1().PersistentVolumeClaims()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())
	see := func(obj any) { queue.Add(cache.MetaObjectToName(obj.(*corev1.PersistentVolumeClaim))) }
	_, err = claims.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, obj any) { see(obj) },
	})
	if err == nil {
		_, err = pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) {
			if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = t.Obj
			}
			if pod, ok := obj.(*corev1.Pod); ok {
				for _, name := range claimsOf(pod) {
					queue.Add(cache.NewObjectName(pod.Namespace, name))
				}
			}
		}})
	}
	if err != nil {
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
		claim, err := claims.Lister().PersistentVolumeClaims(key.Namespace).Get(key.Name)
		if err == nil {
			err = release(ctx, client, pods.Lister(), claim)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			queue.AddRateLimited(key)
		} else {
			queue.Forget(key)
		}
		queue.Done(key)
	}
}

func claimsOf(pod *corev1.Pod) (names []string) {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		}
	}
	return names
}

func release(ctx context.Context, client kubernetes.Interface, pods listers.PodLister, claim *corev1.PersistentVolumeClaim) error {
	if claim.DeletionTimestamp == nil || !slices.Contains(claim.Finalizers, protection) {
		return nil
	}
	all, err := pods.Pods(claim.Namespace).List(labels.Everything())
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(p *corev1.Pod) bool {
		return slices.Contains(claimsOf(p), claim.Name) && p.CreationTimestamp.Before(claim.DeletionTimestamp)
	}) {
		return nil
	}
	left := slices.DeleteFunc(slices.Clone(claim.Finalizers), func(f string) bool { return f == protection })
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": left, "resourceVersion": claim.ResourceVersion, "uid": claim.UID}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}
