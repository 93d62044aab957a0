package clonesets

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
)

// scheme contains CloneSets and the built-in kinds.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, clientscheme.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}()

// newSetsClient returns a client for CloneSets.
func newSetsClient(config *rest.Config) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &v1alpha1.GroupVersion, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	return rest.RESTClientFor(config)
}

// newSetsInformer returns an informer of CloneSets. The CRD's schema does not describe pod templates in full,
// so the API accepts CloneSets that do not fit the Go type. Each object is therefore decoded by itself
// (readSet), and one that cannot be decoded does not affect the others.
func newSetsInformer(client dynamic.Interface, corrections *reconcile.Corrections) (cache.SharedIndexInformer, error) {
	sets := client.Resource(v1alpha1.GroupVersion.WithResource(setsResource))
	list := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			reconcile.Consistent(&o)
			return sets.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			reconcile.Consistent(&o)
			return sets.Watch(ctx, o)
		},
	}
	informer := cache.NewSharedIndexInformer(list, &unstructured.Unstructured{}, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	return informer, informer.SetTransform(corrections.Transform(func(obj any) (any, error) {
		if u, ok := obj.(*unstructured.Unstructured); ok {
			obj = readSet(u)
		}
		return reconcile.DropManagedFields(obj)
	}))
}

// liveSet reads a CloneSet from the API. It returns nil if it does not exist.
func (c *instance) liveSet(ctx context.Context, namespace, name string) (*v1alpha1.CloneSet, error) {
	set := &v1alpha1.CloneSet{}
	err := c.sets.Get().Namespace(namespace).Resource(setsResource).Name(name).Do(ctx).Into(set)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return set, err
}
