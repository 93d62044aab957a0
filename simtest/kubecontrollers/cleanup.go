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

// GarbageCollector deletes objects whose owners are gone, of all resources that the
// API serves. It watches each of them, which is more than a hundred steps at the
// beginning of every run; see GarbageCollectorOf.
func GarbageCollector(ctx context.Context, config *rest.Config) error {
	return collect(ctx, config, nil)
}

// GarbageCollectorOf is the garbage collector for some resources only ("pods",
// "replicasets.apps"): those of owners and of what they own.
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

// initialSync is how long the collector waits for its informers, as by default.
const initialSync = 30 * time.Second

// choose leaves out of lists what is not wanted.
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

// fixedMapper is a mapper that has no reason to look again.
type fixedMapper struct{ meta.RESTMapper }

// Reset implements meta.ResettableRESTMapper.
func (fixedMapper) Reset() {}

// fixedDiscovery answers the one question that the collector has.
type fixedDiscovery struct {
	discovery.ServerResourcesInterface
	lists []*metav1.APIResourceList
}

// ServerPreferredResources implements discovery.ServerResourcesInterface.
func (d fixedDiscovery) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	return d.lists, nil
}

// metadataOnly watches the metadata of objects, of every kind.
type metadataOnly struct {
	metadatainformer.SharedInformerFactory
}

// ForResource implements informerfactory.InformerFactory.
func (f metadataOnly) ForResource(r schema.GroupVersionResource) (informers.GenericInformer, error) {
	return f.SharedInformerFactory.ForResource(r), nil
}

// Namespace deletes what is in namespaces that are being deleted, and then them.
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
