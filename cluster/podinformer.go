package cluster

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// shareListener makes the informer of pods of a factory a podInformer. It is called before anything else asks the factory for pods: a factory has one informer
// per type, the first.
func shareListener(f informers.SharedInformerFactory) {
	f.InformerFor(&corev1.Pod{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		return &podInformer{SharedIndexInformer: coreinformers.NewPodInformer(client, metav1.NamespaceAll, resync, indexers)}
	})
}

// podInformer is an informer that calls the handlers that were added before it started one after the other, in one goroutine. client-go has two goroutines for
// each handler, and passes each event through both. kube-controller-manager adds about 18 handlers of pods, most of which only put a key into a queue, and passing the events
// to them needed more CPU than they do.
//
// A slow handler delays the others. Handlers with a resync period of their own, and those that are added later, have their own goroutines, as in client-go.
type podInformer struct {
	cache.SharedIndexInformer

	mu      sync.Mutex // of started, and of changes of together
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
	if i.started || o.ResyncPeriod != nil {
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
