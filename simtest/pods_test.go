package simtest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// runner is a minimal controller: it sets the status of each pod once.
func runner(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	add := func(o any) {
		if key, err := cache.MetaNamespaceKeyFunc(o); err == nil {
			queue.Add(key)
		}
	}
	if _, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, o any) { add(o) }}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	context.AfterFunc(ctx, queue.ShutDown)
	for {
		key, over := queue.Get()
		if over {
			return nil
		}
		namespace, name, _ := cache.SplitMetaNamespaceKey(key)
		pod, err := pods.Lister().Pods(namespace).Get(name)
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			pod = pod.DeepCopy()
			pod.Status.Phase = corev1.PodRunning
			_, err = client.CoreV1().Pods(namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
			if err != nil {
				queue.AddRateLimited(key)
			}
		}
		queue.Done(key)
	}
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
	}
}

func podTest(n int) func(*simtest.World) {
	return func(w *simtest.World) {
		w.Controller("runner", runner)
		for i := range n {
			w.Create(pod(fmt.Sprintf("p%d", i)))
		}
		for i := range n {
			w.Eventually(time.Minute, invariant.Field("pods", "default", fmt.Sprintf("p%d", i), "status.phase", "Running"))
		}
	}
}

func TestPods(t *testing.T) {
	simtest.Run(t, simtest.Seeds(50), podTest(3))
}
