package stages

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Client is client, for informers of pods of all namespaces: its lists and watches of pods come
// from the feed. An informer that has a field selector names it here, and says in keep
// which pods that takes: only those are shown, and one that is taken no longer as deleted. Lists
// and watches that ask for anything else are refused. Without a feed it is client itself.
func (f *PodFeed) Client(client kubernetes.Interface, selector string, keep func(*corev1.Pod) bool) kubernetes.Interface {
	if f == nil {
		return client
	}
	if keep == nil {
		keep = func(*corev1.Pod) bool { return true }
	}
	return fedClient{client, f, selector, keep}
}

type fedClient struct {
	kubernetes.Interface
	feed     *PodFeed
	selector string
	keep     func(*corev1.Pod) bool
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
	return fedPods{c.CoreV1Interface.Pods(namespace), c.client, namespace}
}

type fedPods struct {
	corev1client.PodInterface
	client    fedClient
	namespace string
}

// known refuses what the feed cannot show.
func (p fedPods) known(o metav1.ListOptions) error {
	if p.namespace != metav1.NamespaceAll || o.LabelSelector != "" || o.FieldSelector != p.client.selector {
		return apierrors.NewBadRequest(fmt.Sprintf("the feed of pods is asked for namespace %q, labels %q and fields %q, and is for all namespaces and fields %q",
			p.namespace, o.LabelSelector, o.FieldSelector, p.client.selector))
	}
	return nil
}

// List implements corev1client.PodInterface.
func (p fedPods) List(ctx context.Context, o metav1.ListOptions) (*corev1.PodList, error) {
	if err := p.known(o); err != nil {
		return nil, err
	}
	return p.client.feed.list(ctx, p.client.keep)
}

// Watch implements corev1client.PodInterface.
func (p fedPods) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if err := p.known(o); err != nil {
		return nil, err
	}
	return p.client.feed.watch(ctx, p.client.keep, o)
}
