package stages

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/rehearse-k8s/rehearse/internal/controller/podcache"
	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
	"github.com/rehearse-k8s/rehearse/stage"
)

// StageEngine runs stages on the nodes that it manages, on their pods, and on all objects of other kinds that
// have stages, and renews the nodes' leases. Create it with NewStageEngine, and call Run once.
type StageEngine struct {
	options   StageOptions
	client    kubernetes.Interface
	table     *table
	leases    *leaseTable
	direct    *direct
	addresses *addresses
	started   time.Time
	playing   time.Time // when the engine started to run stages; lateness counts from here
	interner  podcache.Interner
	counters  counters

	users    *users
	mapper   *restmapper.DeferredDiscoveryRESTMapper
	looked   atomic.Int64 // when the mapper was last reset, in nanoseconds since started
	dynamic  dynamic.Interface
	kinds    *kindWatches
	audits   *audits
	overruns overrunStages
	troubles chan trouble

	tableWake, leaseWake, stagesWake chan struct{}
	synced, stagesSeen               chan struct{}
}

// NewStageEngine creates an engine for the API server of cfg, with protobuf and without a client-side rate
// limit. It sends no request before Run. Errors are about the options or the configuration.
func NewStageEngine(cfg *rest.Config, options StageOptions) (*StageEngine, error) {
	nodeCIDR, podCIDR, err := options.complete()
	if err != nil {
		return nil, err
	}
	own := rest.CopyConfig(cfg)
	own.QPS, own.Burst, own.RateLimiter = -1, 0, nil
	own.ContentType = runtime.ContentTypeProtobuf
	own.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if own.UserAgent == "" {
		own.UserAgent = "rehearse-stage-engine"
	}
	if options.Metrics != nil {
		own.Wrap(options.Metrics.count)
	}
	client, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("stage engine: %w", err)
	}
	direct, err := newDirect(own)
	if err != nil {
		return nil, fmt.Errorf("stage engine: %w", err)
	}
	asJSON := rest.CopyConfig(own)
	asJSON.ContentType, asJSON.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	anyKind, err := dynamic.NewForConfig(asJSON)
	if err != nil {
		return nil, fmt.Errorf("stage engine: %w", err)
	}
	objects, err := metadata.NewForConfig(metadata.ConfigFor(own))
	if err != nil {
		return nil, fmt.Errorf("stage engine: %w", err)
	}
	e := &StageEngine{
		audits:     &audits{client: objects, kinds: map[schema.GroupVersionResource]auditedKind{}},
		users:      newUsers(own),
		mapper:     restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery())),
		dynamic:    anyKind,
		kinds:      &kindWatches{running: map[stage.Kind]*kindWatch{}},
		troubles:   make(chan trouble, mostTroubles),
		stagesWake: make(chan struct{}, 1),

		options:   options,
		client:    client,
		table:     newTable(options.Stages, options.Seed, options.manages),
		leases:    newLeaseTable(options.Seed, options.LeaseDuration),
		direct:    direct,
		addresses: newAddresses(options.Seed, options.NodeIP, nodeCIDR, podCIDR),
		tableWake: make(chan struct{}, 1),
		leaseWake: make(chan struct{}, 1),
		synced:    make(chan struct{}),

		stagesSeen: make(chan struct{}),

		overruns: overrunStages{stages: map[string]overrunStage{}},
	}
	e.table.wake = func() { notify(e.tableWake) }
	e.leases.wake = func() { notify(e.leaseWake) }
	e.table.nodeChanged = e.nodeChanged
	e.table.podChanged = e.addresses.observePod
	e.table.troubled = e.troubled
	e.table.leftOut = e.stageLeftOut
	e.table.owns = options.Shard.Owns
	e.addresses.nodePool = options.Shard.part(e.addresses.nodePool)
	e.addresses.podPool = options.Shard.part(e.addresses.podPool)
	options.Metrics.attach(e)
	return e, nil
}

func notify(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// nodeChanged updates leases and addresses after a change of a node.
func (e *StageEngine) nodeChanged(uid types.UID, name string, n *corev1.Node, managed bool) {
	e.addresses.observeNode(uid, name, n)
	if e.options.LeaseDuration < 0 {
		return
	}
	if managed {
		e.leases.add(e.options.Clock.Now(), uid, name)
	} else {
		e.leases.remove(uid)
	}
}

// Synced is closed when the engine has observed all existing nodes and pods. It then starts to run stages, if
// it is the leader.
func (e *StageEngine) Synced() <-chan struct{} { return e.synced }

// Run runs stages until ctx ends, and returns nil after everything that it has started has stopped. It returns
// an error that is a reconcile.ErrDiverged if the store of the API was restored from a backup: the caller then
// starts a new engine. It may be called once.
func (e *StageEngine) Run(parent context.Context) error {
	ctx, end := context.WithCancelCause(parent)
	cancel := func() { end(nil) }
	defer cancel()
	e.started = e.options.Clock.Now()
	e.playing = e.started
	e.looked.Store(-int64(resetEvery))

	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	begin := func(f func()) { running.Go(f) }

	if e.options.Lead == nil {
		e.primeLeases(ctx)
	}
	core := e.client.CoreV1()
	nodes, err := e.informer(&corev1.Node{}, stage.KindNode, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			reconcile.Consistent(&o)
			return core.Nodes().List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return core.Nodes().Watch(ctx, o)
		},
	})
	if err != nil {
		return err
	}
	pods, err := e.podInformer()
	if err != nil {
		return err
	}
	defer e.audited(stage.KindNode, place{resource: nodesResource}, nodes, "")()
	defer e.audited(stage.KindPod, place{resource: podsResource}, pods, boundPods)()
	begin(func() { nodes.informer.RunWithContext(ctx) })
	if e.options.Lead == nil {
		e.startLeases(ctx, begin)
	}
	// Nodes come first, so that the engine decides on a pod once, with its node.
	if !cache.WaitForCacheSync(ctx.Done(), nodes.handled.HasSynced) {
		return nil
	}
	begin(func() { pods.informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), pods.handled.HasSynced) {
		return nil
	}
	begin(func() { e.recordTroubles(ctx) })
	defer e.kinds.stop()
	if e.options.Watch {
		begin(func() { e.watchStages(ctx) })
		e.awaitStages(ctx)
	}
	e.watchKinds(ctx, e.table.set())
	known, planned := e.table.size()
	e.options.Logger.Info("stage engine started", "objects", known, "planned", planned)
	close(e.synced)
	if e.options.Audit > 0 {
		begin(func() { end(e.audit(ctx)) })
	}
	if e.options.Lead != nil {
		select {
		case <-e.options.Lead:
		case <-ctx.Done():
			return e.ended(ctx)
		}
		e.playing = e.options.Clock.Now()
		e.primeLeases(ctx)
		e.startLeases(ctx, begin)
	}
	e.startStages(ctx, begin)
	<-ctx.Done()
	return e.ended(ctx)
}

// boundPods is the field selector of pods that have a node.
var boundPods = fields.OneTermNotEqualSelector("spec.nodeName", "").String()

// podInformer returns the watch of pods that have a node. The engine does not receive other pods.
func (e *StageEngine) podInformer() (watching, error) {
	client := e.options.Pods.Client(e.client, boundPods, func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })
	pods := client.CoreV1().Pods(metav1.NamespaceAll)
	return e.informer(&corev1.Pod{}, stage.KindPod, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = boundPods
			reconcile.Consistent(&o)
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = boundPods
			return pods.Watch(ctx, o)
		},
	})
}

type watching struct {
	informer cache.SharedIndexInformer
	handled  cache.ResourceEventHandlerRegistration
}

// informer returns a watch of one kind that writes to the table.
func (e *StageEngine) informer(example runtime.Object, kind stage.Kind, lw *cache.ListWatch) (watching, error) {
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(lw, e.client), example, 0, cache.Indexers{})
	if err := informer.SetTransform(e.trim); err != nil {
		return watching{}, fmt.Errorf("stage engine: %w", err)
	}
	handled, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, listed bool) { e.observe(o, listed) },
		UpdateFunc: func(_, o any) {
			e.observe(o, false)
		},
		DeleteFunc: func(o any) { e.deleted(kind, o) },
	})
	if err != nil {
		return watching{}, fmt.Errorf("stage engine: %w", err)
	}
	return watching{informer: informer, handled: handled}, nil
}

// trim reduces the size of an object before it is cached.
func (e *StageEngine) trim(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	switch {
	case !ok:
		dropManagedFields(o)
	case e.options.Pods == nil: // pods of a shared cache are interned already
		e.interner.Intern(pod)
	}
	return o, nil
}

// dropManagedFields drops what the engine never reads and what is about a third of a small pod. The object can
// still be sent back: an update of a status takes the managed fields of the live object, and so does any
// update without them (apimachinery, managedfields/internal/fieldmanager.go, decodeLiveOrNew); only an empty
// list, not a missing one, resets them.
func dropManagedFields(o any) {
	switch o := o.(type) {
	case *corev1.Pod:
		o.ManagedFields = nil
	case *corev1.Node:
		o.ManagedFields = nil
	case *unstructured.Unstructured:
		// Objects of other kinds are patched and never sent back. Only the time of the last write is kept,
		// because delays may count from it.
		var last *metav1.Time
		for _, f := range o.GetManagedFields() {
			if f.Time != nil && (last == nil || last.Before(f.Time)) {
				last = f.Time
			}
		}
		o.SetManagedFields(nil)
		if last != nil {
			o.SetManagedFields([]metav1.ManagedFieldsEntry{{Time: last}})
		}
	}
}

func (e *StageEngine) observe(o any, listed bool) {
	if object, ok := o.(stage.Object); ok && stage.KindOf(object) != (stage.Kind{}) {
		e.table.observe(e.options.Clock.Now(), object, listed)
	}
}

// deleted records a delete, also one that the informer has found only by a new list
// (DeletedFinalStateUnknown).
func (e *StageEngine) deleted(kind stage.Kind, o any) {
	now := e.options.Clock.Now()
	if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
		if unknown.Obj == nil {
			namespace, name, err := cache.SplitMetaNamespaceKey(unknown.Key)
			if err == nil {
				e.table.forgetName(now, objectKey{kind: kind, namespace: namespace, name: name})
			}
			return
		}
		o = unknown.Obj
	}
	if object, ok := o.(stage.Object); ok {
		e.table.forget(now, idOf(object))
	}
}

// dispatch sends keys to out when they are due, one at a time and only to an idle worker, until ctx ends. wake
// signals that the next due time may be earlier than before.
func dispatch[K any](ctx context.Context, c clock.Clock, pop func(time.Time) (K, time.Time, bool), wake <-chan struct{}, out chan<- K) {
	defer close(out)
	for {
		now := c.Now()
		key, next, ok := pop(now)
		if ok {
			select {
			case out <- key:
				continue
			case <-ctx.Done():
				return
			}
		}
		var timer clock.Timer
		var due <-chan time.Time
		if !next.IsZero() {
			timer = c.NewTimer(next.Sub(now))
			due = timer.C()
		}
		select {
		case <-due:
		case <-wake:
		case <-ctx.Done():
		}
		if timer != nil {
			timer.Stop()
		}
		if ctx.Err() != nil {
			return
		}
	}
}
