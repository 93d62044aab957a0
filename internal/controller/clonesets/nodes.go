package clonesets

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// nodes has the labels of nodes. It starts to watch nodes when it is first asked: only CloneSets with
// topology spread constraints need it.
type nodes struct {
	client kubernetes.Interface
	start  func()
	once   sync.Once
	mu     sync.Mutex
	cache  cache.SharedIndexInformer // nil until it is synced
}

// labels returns the labels of each node, or nil while the cache is not synced. They must not be modified.
func (n *nodes) labels() map[string]map[string]string {
	n.once.Do(n.start)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cache == nil {
		return nil
	}
	all := map[string]map[string]string{}
	for _, obj := range n.cache.GetStore().List() {
		node := obj.(*corev1.Node)
		all[node.Name] = node.Labels
	}
	return all
}

// run watches nodes until ctx ends.
func (n *nodes) run(ctx context.Context) {
	factory := informers.NewSharedInformerFactoryWithOptions(n.client, 0, informers.WithTransform(func(obj any) (any, error) {
		if node, ok := obj.(*corev1.Node); ok {
			return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, Labels: node.Labels}}, nil
		}
		return obj, nil
	}))
	informer := factory.Core().V1().Nodes().Informer()
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return
	}
	n.mu.Lock()
	n.cache = informer
	n.mu.Unlock()
	<-ctx.Done()
}
