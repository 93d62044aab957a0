package kubecontrollers

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"

	"github.com/rehearse-k8s/rehearse/simtest"
)

// GarbageCollector deletes objects whose owners no longer exist, of all resources that the API
// serves. It watches each of them, which adds more than a hundred steps to every run; see
// GarbageCollectorOf.
func GarbageCollector(ctx context.Context, config *rest.Config) error {
	return collect(ctx, config, nil)
}

// GarbageCollectorOf returns a garbage collector for some resources only, such as "pods" and
// "replicasets.apps": those of the owners and of their dependents.
func GarbageCollectorOf(resources ...string) simtest.Constructor {
	only := map[schema.GroupResource]bool{}
	for _, r := range resources {
		only[schema.ParseGroupResource(r)] = true
	}
	return func(ctx context.Context, config *rest.Config) error { return collect(ctx, config, only) }
}

// collect runs the garbage collector for some resources; nil stands for all.
func collect(ctx context.Context, config *rest.Config, only map[schema.GroupResource]bool) error {
	lists, mapper, err := simtest.Served(config)
	if err != nil {
		return err
	}
	config = withoutEvents(config)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	metadataClient, err := metadata.NewForConfig(metadata.ConfigFor(config))
	if err != nil {
		return err
	}
	factory := metadatainformer.NewSharedInformerFactory(metadataClient, 0)
	started := make(chan struct{})
	close(started)
	c, err := garbagecollector.NewGarbageCollector(ctx, client, metadataClient, fixedMapper{mapper},
		garbagecollector.DefaultIgnoredResources(), metadataOnly{factory}, started)
	if err != nil {
		return err
	}
	defer factory.Shutdown()
	over := make(chan struct{})
	go func() {
		defer close(over)
		c.Sync(ctx, fixedDiscovery{lists: choose(lists, only)}, period)
	}()
	c.Run(ctx, 1, initialSync)
	<-over
	return nil
}

// initialSync is upstream's default for how long the collector waits for its informers.
const initialSync = 30 * time.Second

// choose returns the lists with the wanted resources; all of them if only is nil.
func choose(lists []*metav1.APIResourceList, only map[schema.GroupResource]bool) []*metav1.APIResourceList {
	if only == nil {
		return lists
	}
	var chosen []*metav1.APIResourceList
	for _, l := range lists {
		version, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			continue
		}
		few := &metav1.APIResourceList{TypeMeta: l.TypeMeta, GroupVersion: l.GroupVersion}
		for _, r := range l.APIResources {
			if only[schema.GroupResource{Group: version.Group, Resource: r.Name}] {
				few.APIResources = append(few.APIResources, r)
			}
		}
		if len(few.APIResources) > 0 {
			chosen = append(chosen, few)
		}
	}
	return chosen
}

// fixedMapper is a REST mapper that never repeats discovery.
type fixedMapper struct{ meta.RESTMapper }

// Reset implements meta.ResettableRESTMapper.
func (fixedMapper) Reset() {}

// fixedDiscovery answers the one discovery request of the collector from memory.
type fixedDiscovery struct {
	discovery.ServerResourcesInterface
	lists []*metav1.APIResourceList
}

// ServerPreferredResources implements discovery.ServerResourcesInterface.
func (d fixedDiscovery) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	return d.lists, nil
}

// metadataOnly returns informers of the metadata of objects, for every kind.
type metadataOnly struct {
	metadatainformer.SharedInformerFactory
}

// ForResource implements informerfactory.InformerFactory.
func (f metadataOnly) ForResource(r schema.GroupVersionResource) (informers.GenericInformer, error) {
	return f.SharedInformerFactory.ForResource(r), nil
}

// Namespace deletes the contents of terminating namespaces, and then the namespaces.
func Namespace(ctx context.Context, config *rest.Config) error {
	lists, _, err := simtest.Served(config)
	if err != nil {
		return err
	}
	namespaced := func() ([]*metav1.APIResourceList, error) {
		return discovery.FilteredBy(discovery.ResourcePredicateFunc(func(_ string, r *metav1.APIResource) bool {
			return r.Namespaced
		}), lists), nil
	}
	metadataClient, err := metadata.NewForConfig(metadata.ConfigFor(config))
	if err != nil {
		return err
	}
	return run(ctx, config, func(p parts) (runner, error) {
		return namespace.NewNamespaceController(ctx, p.client, metadataClient, namespaced,
			p.informers.Core().V1().Namespaces(), period, corev1.FinalizerKubernetes), nil
	})
}
