// Package countandunfinalize has a deliberate bug: one sync counts finished pods in the status and
// removes the finalizers that distinguish uncounted pods from counted ones.
//
// It reproduces kubernetes issue 130103 (the Job controller up to 1.33): with late events of the
// Job, the next sync observed a pod without the finalizer, which it took for counted, and a status
// in which it was not counted. It created a second pod although parallelism and completions were 1.
//
// A ConfigMap with the label [Label] is the job: "completions" is how many pods must succeed;
// "succeeded" and "uncounted" are its status, like the Job's fields of the same names. As in the
// Job controller, one sync records which pods finished, removes the finalizers, and counts.
package countandunfinalize

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

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

const (
	// Label marks the ConfigMaps that are jobs.
	Label = "rehearse.example/completions"
	// Finalizer keeps pods that have not been counted.
	Finalizer = "rehearse.example/uncounted"
)

type controller struct {
	client kubernetes.Interface
	jobs   listers.ConfigMapLister
	pods   listers.PodLister
	queue  workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

// Run runs the controller until ctx ends.
func Run(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	jobs, pods := factory.Core().V1().ConfigMaps(), factory.Core().V1().Pods()
	c := &controller{client, jobs.Lister(), pods.Lister(), workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())}
	see := func(obj any) {
		if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = t.Obj
		}
		switch obj := obj.(type) {
		case *corev1.ConfigMap:
			c.queue.Add(cache.MetaObjectToName(obj))
		case *corev1.Pod:
			if ref := metav1.GetControllerOf(obj); ref != nil {
				c.queue.Add(cache.NewObjectName(obj.Namespace, ref.Name))
			}
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, obj any) { see(obj) }, DeleteFunc: see}
	for _, informer := range []cache.SharedIndexInformer{jobs.Informer(), pods.Informer()} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	defer context.AfterFunc(ctx, c.queue.ShutDown)()
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	factory.WaitForCacheSync(ctx.Done())
	for c.work(ctx) {
	}
	return nil
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
	cached, err := c.jobs.ConfigMaps(key.Namespace).Get(key.Name)
	if err != nil {
		return err
	}
	job := cached.DeepCopy()
	completions, err := strconv.Atoi(job.Data["completions"])
	if err != nil || job.Labels[Label] == "" {
		return nil
	}
	succeeded, _ := strconv.Atoi(job.Data["succeeded"])
	uncounted := strings.Fields(job.Data["uncounted"])
	all, err := c.pods.Pods(key.Namespace).List(labels.Everything())
	if err != nil {
		return err
	}
	active := 0
	var finished []*corev1.Pod // finished and, judging by the finalizer, not counted
	for _, pod := range all {
		switch {
		case !metav1.IsControlledBy(pod, job):
		case pod.Status.Phase != corev1.PodSucceeded && pod.DeletionTimestamp == nil:
			active++
		case slices.Contains(pod.Finalizers, Finalizer):
			finished = append(finished, pod)
			if uid := string(pod.UID); pod.Status.Phase == corev1.PodSucceeded && !slices.Contains(uncounted, uid) {
				uncounted = append(uncounted, uid)
			}
		}
	}
	for range completions - succeeded - len(uncounted) - active {
		if _, err := c.client.CoreV1().Pods(key.Namespace).Create(ctx, podOf(job), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	if len(finished)+len(uncounted) == 0 {
		return nil
	}
	if job, err = c.status(ctx, job, succeeded, uncounted); err != nil {
		return err
	}
	for _, pod := range finished {
		if err := c.release(ctx, pod); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	_, err = c.status(ctx, job, succeeded+len(uncounted), nil)
	return err
}

func (c *controller) status(ctx context.Context, job *corev1.ConfigMap, succeeded int, uncounted []string) (*corev1.ConfigMap, error) {
	job.Data["succeeded"], job.Data["uncounted"] = strconv.Itoa(succeeded), strings.Join(uncounted, " ")
	return c.client.CoreV1().ConfigMaps(job.Namespace).Update(ctx, job, metav1.UpdateOptions{})
}

func (c *controller) release(ctx context.Context, pod *corev1.Pod) error {
	rest := slices.DeleteFunc(slices.Clone(pod.Finalizers), func(f string) bool { return f == Finalizer })
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "finalizers": rest}})
	if err != nil {
		return err
	}
	_, err = c.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func podOf(job *corev1.ConfigMap) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName:    job.Name + "-",
			Namespace:       job.Namespace,
			Finalizers:      []string{Finalizer},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, corev1.SchemeGroupVersion.WithKind("ConfigMap"))},
		},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "work", Image: "work"}}},
	}
}
