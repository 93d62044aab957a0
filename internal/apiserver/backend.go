package apiserver

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"github.com/rehearse-k8s/rehearse/internal/store"
)

// Backend stores an API server's objects.
type Backend interface {
	// prepare sets upstream's storage options before the server is built.
	prepare(*genericoptions.EtcdOptions)
	// getter wraps upstream's choice of storage for each resource.
	getter(next generic.RESTOptionsGetter, watchCache bool) generic.RESTOptionsGetter
	// run does the background work of the backend until the context ends.
	run(context.Context)
	content
}

// Memory stores objects in this process only.
type Memory struct{ Worlds *store.Worlds }

func (m Memory) prepare(o *genericoptions.EtcdOptions) {
	// One part of kube-apiserver has no storage.Interface to replace: the allocator of service node ports
	// uses an etcd client. Its dialer leads to a server with two etcd calls over the same store.
	stub := serveEtcdKV(m.Worlds.World(""))
	o.StorageConfig.Transport.ServerList = []string{"http://memory.invalid:2379"}
	o.StorageConfig.Transport.EgressLookup = stub.lookup
	o.StorageConfig.CompactionInterval = 0   // the store compacts itself
	o.StorageConfig.DBMetricPollInterval = 0 // no database file exists to measure
	o.SkipHealthEndpoints = true
	store.EnableConsistentReads()
}

func (m Memory) getter(next generic.RESTOptionsGetter, watchCache bool) generic.RESTOptionsGetter {
	return memoryGetter{next: next, worlds: m.Worlds, watchCache: watchCache}
}

func (m Memory) run(ctx context.Context) { m.Worlds.Run(ctx) }

// memoryGetter keeps upstream's options for a resource and replaces the etcd client by our store.
type memoryGetter struct {
	next       generic.RESTOptionsGetter
	worlds     *store.Worlds
	watchCache bool
}

func (g memoryGetter) GetRESTOptions(gr schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	o, err := g.next.GetRESTOptions(gr, example)
	if err != nil {
		return o, err
	}
	o.CountMetricPollPeriod = 0
	o.Decorator = g.decorate
	if g.watchCache {
		o.Decorator = withBufferedWatches(o.Decorator)
	}
	return o, nil
}

// decorate is a generic.StorageDecorator. Events have no watch cache upstream either: they are written far
// more often than read.
func (g memoryGetter) decorate(
	c *storagebackend.ConfigForResource, prefix string,
	keyFunc func(runtime.Object) (string, error),
	newFunc, newListFunc func() runtime.Object,
	attrs storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	s, err := g.worlds.Storage(store.Config{
		Codec: c.Codec, NewFunc: newFunc, NewListFunc: newListFunc,
		ResourcePrefix: prefix, GroupResource: c.GroupResource,
	})
	if err != nil {
		return nil, nil, err
	}
	if c.GroupResource == podResource {
		g.worlds.Publish(podResource, s)
	}
	if !g.watchCache || c.GroupResource.Resource == "events" {
		return s, func() {}, nil
	}
	ca, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage: s, Versioner: storage.APIObjectVersioner{}, Codec: c.Codec,
		GroupResource: c.GroupResource, EventsHistoryWindow: c.EventsHistoryWindow,
		ResourcePrefix: prefix, KeyFunc: keyFunc, NewFunc: newFunc, NewListFunc: newListFunc,
		GetAttrsFunc: attrs, IndexerFuncs: triggers, Indexers: indexers,
	})
	if err != nil {
		return nil, nil, err
	}
	d := cacher.NewCacheDelegator(ca, s)
	return d, sync.OnceFunc(func() { d.Stop(); ca.Stop() }), nil
}

// etcdGetter is upstream's storage on etcd, with buffered watches.
type etcdGetter struct{ next generic.RESTOptionsGetter }

func (g etcdGetter) GetRESTOptions(gr schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	o, err := g.next.GetRESTOptions(gr, example)
	if err == nil {
		o.Decorator = withBufferedWatches(o.Decorator)
	}
	return o, err
}
