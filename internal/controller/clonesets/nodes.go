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

// nodes knows the labels of nodes, once somebody has asked for them: only sets with
// topology spread constraints do.
type nodes struct {
	client kubernetes.Interface
	start  func()
	once   sync.Once
	mu     sync.Mutex
	cache  cache.SharedIndexInformer // nil until it shows all
}

// labels are those of all nodes, or nil while nobody knows. They are not changed.
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
