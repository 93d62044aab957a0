package cluster

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// podFactory is a factory whose informer of pods is a podInformer.
type podFactory struct {
	informers.SharedInformerFactory
}

// InformerFor implements informers.SharedInformerFactory.
func (f podFactory) InformerFor(obj runtime.Object, newInformer internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	if _, ok := obj.(*corev1.Pod); !ok {
		return f.SharedInformerFactory.InformerFor(obj, newInformer)
	}
	return f.SharedInformerFactory.InformerFor(obj, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return &podInformer{SharedIndexInformer: newInformer(client, resync)}
	})
}

// Core implements informers.SharedInformerFactory.
func (f podFactory) Core() core.Interface { return core.New(f, metav1.NamespaceAll, nil) }

// ForResource implements informers.SharedInformerFactory. The informer of pods is created before upstream's factory looks for one.
func (f podFactory) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	if resource == corev1.SchemeGroupVersion.WithResource("pods") {
		f.Core().V1().Pods().Informer()
	}
	return f.SharedInformerFactory.ForResource(resource)
}

// podInformer is an informer that calls the handlers that were added before it started one after the other, in one goroutine. client-go has two goroutines for
// each handler, and passes each event through both. Most handlers of pods of kube-controller-manager only put a key into a queue, and passing the events to them needed
// more CPU than they do.
//
// A slow handler delays the others, and one that panics also withholds the event from those after it, if the process continues. These handlers have goroutines of
// their own, as in client-go: those with a resync period of their own, those that are added after the start, and those of deletes only, because that of the Deployment
// controller lists ReplicaSets from the API if a pod of a Deployment with the strategy Recreate was deleted.
type podInformer struct {
	cache.SharedIndexInformer

	mu      sync.Mutex // guards started, shared and writes of together
	started bool
	shared  cache.ResourceEventHandlerRegistration // nil before the first handler
	// together are the handlers of the shared registration.
	together atomic.Pointer[[]*sharedHandler]
}

// sharedHandler is the registration of a handler that is called together with others.
type sharedHandler struct {
	cache.ResourceEventHandlerRegistration
	cache.ResourceEventHandler
}

// AddEventHandler implements cache.SharedInformer.
func (i *podInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, cache.HandlerOptions{})
}

// AddEventHandlerWithOptions implements cache.SharedInformer. A logger in the options is that of a goroutine, so it is not used if the handler gets none.
func (i *podInformer) AddEventHandlerWithOptions(h cache.ResourceEventHandler, o cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.started || o.ResyncPeriod != nil || deletesOnly(h) {
		return i.SharedIndexInformer.AddEventHandlerWithOptions(h, o)
	}
	if i.shared == nil {
		shared, err := i.SharedIndexInformer.AddEventHandler(handlers{i})
		if err != nil {
			return nil, err
		}
		i.shared = shared
	}
	added := &sharedHandler{i.shared, h}
	all := append(slices.Clone(i.handlers()), added)
	i.together.Store(&all)
	return added, nil
}

func deletesOnly(h cache.ResourceEventHandler) bool {
	f, ok := h.(cache.ResourceEventHandlerFuncs)
	return ok && f.AddFunc == nil && f.UpdateFunc == nil
}

// RemoveEventHandler implements cache.SharedInformer.
func (i *podInformer) RemoveEventHandler(r cache.ResourceEventHandlerRegistration) error {
	removed, ok := r.(*sharedHandler)
	if !ok {
		return i.SharedIndexInformer.RemoveEventHandler(r)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(i.handlers()), func(h *sharedHandler) bool { return h == removed })
	i.together.Store(&all)
	return nil
}

// Run implements cache.SharedInformer.
func (i *podInformer) Run(stop <-chan struct{}) {
	i.start()
	i.SharedIndexInformer.Run(stop)
}

// RunWithContext implements cache.SharedInformer.
func (i *podInformer) RunWithContext(ctx context.Context) {
	i.start()
	i.SharedIndexInformer.RunWithContext(ctx)
}

func (i *podInformer) start() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.started = true
}

func (i *podInformer) handlers() []*sharedHandler {
	if all := i.together.Load(); all != nil {
		return *all
	}
	return nil
}

// handlers is the handler of the shared registration of an informer.
type handlers struct{ *podInformer }

// OnAdd implements cache.ResourceEventHandler.
func (h handlers) OnAdd(obj any, initial bool) {
	for _, each := range h.handlers() {
		each.OnAdd(obj, initial)
	}
}

// OnUpdate implements cache.ResourceEventHandler.
func (h handlers) OnUpdate(old, now any) {
	for _, each := range h.handlers() {
		each.OnUpdate(old, now)
	}
}

// OnDelete implements cache.ResourceEventHandler.
func (h handlers) OnDelete(obj any) {
	for _, each := range h.handlers() {
		each.OnDelete(obj)
	}
}
