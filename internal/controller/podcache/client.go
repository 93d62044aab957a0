package podcache

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

// Client returns client with lists and watches of pods served from the cache, for informers of pods of
// all namespaces. An informer with a field selector passes it as selector, and keep reports whether the
// selector matches a pod (nil: each pod matches): a pod that stops matching is sent as deleted. Lists
// and watches of pods with any other namespace or selector are rejected with BadRequest. On a nil Cache
// it returns client itself. If client is nil, the result serves only these requests, and panics for others.
func (c *Cache) Client(client kubernetes.Interface, selector string, keep func(*corev1.Pod) bool) kubernetes.Interface {
	if c == nil {
		return client
	}
	if keep == nil {
		keep = func(*corev1.Pod) bool { return true }
	}
	return cachedClient{client, c, selector, keep}
}

// Source is the client of readers that start before Connect, without a selector: it serves only pods. It returns an error if client-go's stores do not report
// their revisions (reconcile.RequireRevisions).
func (c *Cache) Source() (kubernetes.Interface, error) {
	if err := requireRevisions(); err != nil {
		return nil, err
	}
	return c.Client(nil, "", nil), nil
}

type cachedClient struct {
	kubernetes.Interface
	cache    *Cache
	selector string
	keep     func(*corev1.Pod) bool
}

// CoreV1 implements kubernetes.Interface.
func (c cachedClient) CoreV1() corev1client.CoreV1Interface {
	core := cachedCore{client: c}
	if c.Interface != nil {
		core.CoreV1Interface = c.Interface.CoreV1()
	}
	return core
}

type cachedCore struct {
	corev1client.CoreV1Interface
	client cachedClient
}

// Pods implements corev1client.PodsGetter.
func (c cachedCore) Pods(namespace string) corev1client.PodInterface {
	pods := cachedPods{client: c.client, namespace: namespace}
	if c.CoreV1Interface != nil {
		pods.PodInterface = c.CoreV1Interface.Pods(namespace)
	}
	return pods
}

type cachedPods struct {
	corev1client.PodInterface
	client    cachedClient
	namespace string
}

// validate returns an error if the cache cannot serve a request with these options.
func (p cachedPods) validate(o metav1.ListOptions) error {
	if p.namespace != metav1.NamespaceAll || o.LabelSelector != "" || o.FieldSelector != p.client.selector {
		return apierrors.NewBadRequest(fmt.Sprintf("read pods from the pod cache: namespace %q, labelSelector %q and fieldSelector %q are not supported; this client serves all namespaces with fieldSelector %q",
			p.namespace, o.LabelSelector, o.FieldSelector, p.client.selector))
	}
	return nil
}

// List implements corev1client.PodInterface.
func (p cachedPods) List(ctx context.Context, o metav1.ListOptions) (*corev1.PodList, error) {
	if err := p.validate(o); err != nil {
		return nil, err
	}
	return p.client.cache.list(ctx, p.client.keep)
}

// Watch implements corev1client.PodInterface.
func (p cachedPods) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if err := p.validate(o); err != nil {
		return nil, err
	}
	return p.client.cache.watch(ctx, p.client.keep, o)
}
