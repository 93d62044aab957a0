package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Client is client, for informers: its lists and watches of pods come from the feed, whatever
// namespace and selectors they ask for. With keep they show the pods that keep takes,
// and one that it takes no longer as deleted, as with a selector. Without a feed it is
// client itself.
func (f *PodFeed) Client(client kubernetes.Interface, keep func(*corev1.Pod) bool) kubernetes.Interface {
	if f == nil {
		return client
	}
	if keep == nil {
		keep = func(*corev1.Pod) bool { return true }
	}
	return fedClient{client, f, keep}
}

type fedClient struct {
	kubernetes.Interface
	feed *PodFeed
	keep func(*corev1.Pod) bool
}

// CoreV1 implements kubernetes.Interface.
func (c fedClient) CoreV1() corev1client.CoreV1Interface {
	return fedCore{c.Interface.CoreV1(), c}
}

type fedCore struct {
	corev1client.CoreV1Interface
	client fedClient
}

// Pods implements corev1client.PodsGetter.
func (c fedCore) Pods(namespace string) corev1client.PodInterface {
	return fedPods{c.CoreV1Interface.Pods(namespace), c.client}
}

type fedPods struct {
	corev1client.PodInterface
	client fedClient
}

// List implements corev1client.PodInterface.
func (p fedPods) List(ctx context.Context, _ metav1.ListOptions) (*corev1.PodList, error) {
	return p.client.feed.list(ctx, p.client.keep)
}

// Watch implements corev1client.PodInterface.
func (p fedPods) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return p.client.feed.watch(ctx, p.client.keep, o)
}
