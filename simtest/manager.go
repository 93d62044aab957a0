package simtest

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/go-logr/logr"
)

// Manager starts a controller-runtime manager. setup adds its controllers, as main does in
// production; after a crash, setup is called with a new manager. By default the manager serves no
// metrics and elects no leader, and its scheme is that of the test's options; options change this.
func (w *World) Manager(name string, setup func(ctrl.Manager) error, options ...func(*ctrl.Options)) {
	if setup == nil {
		w.fatal("manager %s: want a function that adds its controllers", name)
	}
	w.Controller(name, w.managed(name, setup, options))
}

// ManagerReplicas starts n replicas of one manager, "name/0", "name/1", …. Only the replica that
// holds the Lease default/NAME is active.
func (w *World) ManagerReplicas(name string, n int, setup func(ctrl.Manager) error, options ...func(*ctrl.Options)) {
	if setup == nil {
		w.fatal("manager %s: want a function that adds its controllers", name)
	}
	elect := func(o *ctrl.Options) { o.LeaderElection = true }
	w.Replicas(name, n, w.managed(name, setup, append([]func(*ctrl.Options){elect}, options...)))
}

// managed returns the constructor of a manager.
func (w *World) managed(name string, setup func(ctrl.Manager) error, options []func(*ctrl.Options)) Constructor {
	return func(ctx context.Context, config *rest.Config) error {
		o := w.managerOptions(name)
		for _, change := range options {
			change(&o)
		}
		if err := electByName(config, &o); err != nil {
			return err
		}
		newCache := o.NewCache
		if newCache == nil {
			newCache = cache.New
		}
		o.NewCache = func(config *rest.Config, options cache.Options) (cache.Cache, error) {
			c, err := newCache(config, options)
			return endingCache{c, ctx}, err
		}
		manager, err := ctrl.NewManager(config, o)
		if err != nil {
			return fmt.Errorf("manager %s: %w", name, err)
		}
		if err := setup(manager); err != nil {
			return fmt.Errorf("set manager %s up: %w", name, err)
		}
		return manager.Start(ctx)
	}
}

// managerOptions returns options without endpoints outside of the process, and with a REST mapper
// that needs no discovery requests.
func (w *World) managerOptions(name string) ctrl.Options {
	o := ctrl.Options{
		Scheme:                  w.config.scheme,
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:  "0",
		PprofBindAddress:        "0",
		LeaderElectionID:        name,
		LeaderElectionNamespace: metav1.NamespaceDefault,
		Logger:                  logr.New(log.NullLogSink{}),
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			return w.server.restMapper(), nil
		},
	}
	// controller-runtime rejects a controller name that the process has used before; every run uses
	// the same names.
	o.Controller.SkipNameValidation = ptr.To(true)
	// controller-runtime's priority queue (v0.24.1, handleReadyItems) can block forever during
	// shutdown: it hands out an item while it holds its lock, and the receiver has already left.
	// The run would not end either, so managers use client-go's queue.
	o.Controller.UsePriorityQueue = ptr.To(false)
	o.NewCache = func(config *rest.Config, options cache.Options) (cache.Cache, error) {
		c, err := cache.New(config, options)
		replica := name
		if i, ok := config.Transport.(*instance); ok {
			replica = i.name
		}
		return orderedCache{c, w, replica}, err
	}
	if *flagVerbose {
		o.Logger = klog.Background().WithName(name)
	}
	return o
}

// electByName replaces the leader-election lock of a manager by one whose holder identity is the
// name of the instance. The default identity contains the host name and a random number.
func electByName(config *rest.Config, o *ctrl.Options) error {
	i, ok := config.Transport.(*instance)
	if !o.LeaderElection || o.LeaderElectionResourceLockInterface != nil || !ok {
		return nil
	}
	const renewDeadline = 10 * time.Second // controller-runtime's default
	own := rest.CopyConfig(config)
	// Like controller-runtime: one request without an answer must not lose the lease.
	own.Timeout = max(ptr.Deref(o.RenewDeadline, renewDeadline)/2, time.Second)
	client, err := coordinationv1client.NewForConfig(own)
	if err != nil {
		return err
	}
	o.LeaderElectionResourceLockInterface = &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: o.LeaderElectionNamespace, Name: o.LeaderElectionID},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: fmt.Sprintf("%s_%d", i.name, i.n)},
		Labels:     o.LeaderElectionLabels,
	}
	return nil
}

// endingCache is the cache of a manager that waits for it only until the manager's context ends. The manager of
// controller-runtime 0.24.1 would continue to wait then (runnableGroup.Start), in a loop that never blocks, so that the
// run could not continue.
type endingCache struct {
	cache.Cache
	manager context.Context
}

// WaitForCacheSync implements cache.Informers. Once the manager has to end, it reports true: the manager then gets to
// where it ends.
func (c endingCache) WaitForCacheSync(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.manager, cancel)()
	return c.Cache.WaitForCacheSync(ctx) || c.manager.Err() != nil
}

// orderedCache is a manager's cache that adds event handlers to informers before they have synced.
// By default handlers are added afterwards, and client-go then delivers the cached objects in the
// order of a Go map, which no seed determines. Handlers that are added later receive them in the order of their keys. Informers
// are created one after another, each while every other goroutine of the run is blocked.
type orderedCache struct {
	cache.Cache
	world   *World
	replica string
}

// GetInformer implements cache.Informers.
func (c orderedCache) GetInformer(ctx context.Context, o client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	name := fmt.Sprintf("%s informer %T %s", c.replica, o, o.GetObjectKind().GroupVersionKind())
	c.world.oneByOne(ctx, name)
	i, err := c.Cache.GetInformer(ctx, o, append(options, cache.BlockUntilSynced(false))...)
	if err != nil {
		return nil, err
	}
	return c.world.sortInitialEvents(i, name), nil
}

// GetInformerForKind implements cache.Informers.
func (c orderedCache) GetInformerForKind(ctx context.Context, kind schema.GroupVersionKind, options ...cache.InformerGetOption) (cache.Informer, error) {
	name := fmt.Sprintf("%s informer %s", c.replica, kind)
	c.world.oneByOne(ctx, name)
	i, err := c.Cache.GetInformerForKind(ctx, kind, append(options, cache.BlockUntilSynced(false))...)
	if err != nil {
		return nil, err
	}
	return c.world.sortInitialEvents(i, name), nil
}
