package resourcemetrics

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	clientrest "k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/kubeletapi/rules"
	"github.com/rehearse-k8s/rehearse/internal/usage"
)

// Options are the options of New.
type Options struct {
	// Rules are the objects from files. They precede the objects of the API that have the same scope.
	Rules *rules.Set
	// Serves selects the nodes that ServeDiscovery lists; default: all.
	Serves func(*corev1.Node) bool
	// Now is the current time; default time.Now.
	Now func() time.Time
}

// Pods reads pods from a cache. Callers must not modify them.
type Pods interface {
	// Pods returns the pods of a namespace, or of all namespaces if it is empty, in any order.
	Pods(ctx context.Context, namespace string) ([]*corev1.Pod, error)
	// Pod returns a pod, nil if it does not exist.
	Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error)
}

// Source computes resource metrics.
type Source struct {
	options Options
	cluster atomic.Pointer[cluster] // nil before Connect

	mu       sync.Mutex // for the fields below: one request computes at a time
	compiler usage.Compiler
	totals   usage.Totals
	retained time.Time // when totals of objects that do not exist were removed
}

type cluster struct {
	pods    Pods
	clients func() (clients, error)
}

type clients struct {
	core    *corev1client.CoreV1Client
	dynamic dynamic.Interface
}

// New returns a Source that answers every request with status 503 before Connect.
func New(o Options) *Source {
	if o.Rules == nil {
		o.Rules = &rules.Set{}
	}
	if o.Serves == nil {
		o.Serves = func(*corev1.Node) bool { return true }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Source{options: o}
}

// Connect sets the pods, and the configuration of the client that reads nodes and the objects of the group kwok.x-k8s.io. The client is
// created at the first request.
func (s *Source) Connect(config *clientrest.Config, pods Pods) {
	s.cluster.Store(&cluster{pods, sync.OnceValues(func() (c clients, err error) {
		if c.core, err = corev1client.NewForConfig(config); err != nil {
			return c, err
		}
		c.dynamic, err = dynamic.NewForConfig(config)
		return c, err
	})})
}

// Storages returns the storages of the resources of metrics.k8s.io.
func (s *Source) Storages() map[string]rest.Storage {
	return map[string]rest.Storage{"nodes": nodeStorage{source: s}, "pods": podStorage{source: s}}
}

// request reads the cluster for one request. It reads nodes, and the pods of nodes, only if an expression or the request needs them.
type request struct {
	ctx     context.Context
	cluster *cluster
	clients clients
	usages  *rules.Usages
	now     time.Time
	err     error // of a read for an expression

	nodes      map[string]*corev1.Node
	podsByNode map[string][]*corev1.Pod
}

// begin begins a request and reads the rules of usage. With pod, it reads only those that may apply to this pod of the namespace.
func (s *Source) begin(ctx context.Context, namespace, pod string) (*request, error) {
	r, err := s.newRequest(ctx)
	if err != nil {
		return nil, err
	}
	stored, err := r.storedRules(namespace, pod)
	if err != nil {
		return nil, err
	}
	r.usages = rules.NewUsages(slices.Concat(s.options.Rules.Usages, stored))
	return r, nil
}

// newRequest begins a request that computes no usage. It reads nothing.
func (s *Source) newRequest(ctx context.Context) (*request, error) {
	c := s.cluster.Load()
	if c == nil {
		return nil, apierrors.NewServiceUnavailable("the cluster is starting")
	}
	r := &request{ctx: ctx, cluster: c, now: s.options.Now()}
	var err error
	if r.clients, err = c.clients(); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return r, nil
}

// storedRules reads the objects of the API, the oldest first. A kind that is not installed has no objects.
func (r *request) storedRules(namespace, pod string) ([]rules.Object[v1alpha1.ResourceUsageContainer], error) {
	own := metav1.ListOptions{}
	if pod != "" {
		own.FieldSelector = metav1.ObjectNameField + "=" + pod
	}
	namespaced, err := r.list("resourceusages", namespace, own)
	if err != nil {
		return nil, err
	}
	clusterWide, err := r.list("clusterresourceusages", "", metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	set := &rules.Set{}
	if err := addObjects(set, namespaced); err != nil {
		return nil, err
	}
	if err := addOldestFirst(set, clusterWide); err != nil {
		return nil, err
	}
	return set.Usages, nil
}

// addOldestFirst adds objects of the API to a set, the oldest first.
func addOldestFirst(set *rules.Set, objects []unstructured.Unstructured) error {
	slices.SortFunc(objects, func(a, b unstructured.Unstructured) int {
		at, bt := a.GetCreationTimestamp(), b.GetCreationTimestamp()
		return cmp.Or(at.Time.Compare(bt.Time), cmp.Compare(a.GetName(), b.GetName()))
	})
	return addObjects(set, objects)
}

// addObjects adds objects of the API to a set.
func addObjects(set *rules.Set, objects []unstructured.Unstructured) error {
	for _, o := range objects {
		data, err := o.MarshalJSON()
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		if err := set.AddObject(data); err != nil {
			return apierrors.NewInternalError(err)
		}
	}
	return nil
}

func (r *request) list(resource, namespace string, o metav1.ListOptions) ([]unstructured.Unstructured, error) {
	list, err := r.clients.dynamic.Resource(v1alpha1.GroupVersion.WithResource(resource)).Namespace(namespace).List(r.ctx, o)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return list.Items, nil
}

// plan returns a Plan that reads through r. The caller holds s.mu while it uses the Plan.
func (s *Source) plan(r *request) *usage.Plan {
	return usage.NewPlan(&s.compiler, &s.totals, usage.View{
		Now: r.now,
		Rule: func(namespace, pod, container string) *usage.Rule {
			if m := r.usages.Of(namespace, pod, container); m != nil {
				return &usage.Rule{Object: m.Object, Usage: m.Entry.Usage}
			}
			return nil
		},
		Node: func(name string) *corev1.Node {
			r.keep(r.readNodes(metav1.ListOptions{}))
			return r.nodes[name]
		},
		Pods: func(node string) []*corev1.Pod {
			r.keep(r.readPodsByNode())
			return r.podsByNode[node]
		},
	})
}

// keep remembers the first error of a read for an expression.
func (r *request) keep(err error) { r.err = cmp.Or(r.err, err) }

// readNodes reads the nodes that options select, once.
func (r *request) readNodes(o metav1.ListOptions) error {
	if r.nodes != nil {
		return nil
	}
	list, err := r.clients.core.Nodes().List(r.ctx, o)
	if err != nil {
		return err
	}
	r.nodes = make(map[string]*corev1.Node, len(list.Items))
	for i := range list.Items {
		r.nodes[list.Items[i].Name] = &list.Items[i]
	}
	return nil
}

// readPodsByNode reads all pods that are bound to a node, once.
func (r *request) readPodsByNode() error {
	if r.podsByNode != nil {
		return nil
	}
	pods, err := r.cluster.pods.Pods(r.ctx, metav1.NamespaceAll)
	if err != nil {
		return err
	}
	r.podsByNode = map[string][]*corev1.Pod{}
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			r.podsByNode[p.Spec.NodeName] = append(r.podsByNode[p.Spec.NodeName], p)
		}
	}
	return nil
}
