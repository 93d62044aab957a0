package scale

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// Label is on every object that scale created; its value is the set's name.
const Label = "rehearse-k8s.github.io/scale"

// writers is the number of concurrent requests. It hides the round-trip time; a server on the same machine is busy with
// fewer.
const writers = 32

// pageSize limits the answers to list requests, for sets of a hundred thousand objects.
const pageSize = 2000

// Kind is what is scaled: node, pod, a kind of the cluster as for kubectl, or the name of a KwokctlResource.
type Kind string

// The kinds with a built-in template.
const (
	Node Kind = "node"
	Pod  Kind = "pod"
)

// Request is the desired size of a set.
type Request struct {
	Kind Kind
	Name string
	// Namespace is that of the objects; kinds without a namespace ignore it, unless NamespaceGiven is set.
	Namespace      string
	NamespaceGiven bool
	Replicas       int
	// Digits is the least number of digits in the names of the objects.
	Digits   int
	Template string            // empty: the built-in one
	Params   map[string]string // for the template
	// Resource replaces the template, and Programs are jq programs for its parameters.
	Resource *Resource
	Programs []string
	// AssignNodes sets the pods' nodes round robin, without the scheduler.
	AssignNodes bool
	// Progress is called from several goroutines after each write.
	Progress func(done, total int)
}

// Result counts the members that were created, deleted and kept.
type Result struct{ Created, Deleted, Kept int }

// scaler executes one request.
type scaler struct {
	Request
	maker    *maker
	resource schema.GroupVersionResource
	client   rest.Interface // of kinds that have Protobuf
	objects  dynamic.ResourceInterface
	metadata metadata.ResourceInterface
	nodes    []string
	done     atomic.Int64
	total    int
}

// Run creates missing members and deletes surplus ones. It returns a *TemplateError before anything is written.
func Run(ctx context.Context, config *rest.Config, r Request) (Result, error) {
	m, err := newMaker(r)
	if err != nil {
		return Result{}, err
	}
	s := &scaler{Request: r, maker: m}
	if err := s.connect(ctx, config); err != nil {
		return Result{}, err
	}
	have, err := s.members(ctx)
	if err != nil {
		return Result{}, err
	}
	if err := s.checkDigits(have); err != nil {
		return Result{}, err
	}
	var missing []int
	for i := range r.Replicas {
		name := s.member(i)
		if m, ok := have[name]; ok && !m.terminating {
			delete(have, name)
			continue
		}
		missing = append(missing, i)
		delete(have, name)
	}
	for name, m := range have {
		if m.terminating {
			delete(have, name)
		}
	}
	result := Result{Kept: r.Replicas - len(missing)}
	s.total = len(missing) + len(have)
	var created, deleted atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for name, m := range have {
		group.Go(func() error { return s.count(&deleted, s.remove(ctx, name, m.uid)) })
	}
	for _, i := range missing {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { return s.count(&created, s.create(ctx, i)) })
	}
	err = group.Wait()
	result.Created, result.Deleted = int(created.Load()), int(deleted.Load())
	return result, err
}

// connect creates clients without client-side rate limits.
func (s *scaler) connect(ctx context.Context, config *rest.Config) error {
	config = rest.CopyConfig(config)
	config.QPS = -1
	if err := s.findResource(config); err != nil {
		return err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	s.objects = objects.Resource(s.resource).Namespace(s.Namespace)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = config.ContentType + ",application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if s.maker.gvk == nodeGVK || s.maker.gvk == podGVK {
		s.client = client.CoreV1().RESTClient()
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	s.metadata = meta.Resource(s.resource).Namespace(s.Namespace)
	if s.AssignNodes {
		return s.findNodes(ctx, meta)
	}
	return nil
}

// findResource finds the resource of the objects. For nodes and pods it asks no server.
func (s *scaler) findResource(config *rest.Config) error {
	gvk, namespaced := s.maker.gvk, true
	switch {
	case gvk == nodeGVK:
		s.resource, namespaced = corev1.SchemeGroupVersion.WithResource("nodes"), false
	case gvk == podGVK:
		s.resource = corev1.SchemeGroupVersion.WithResource("pods")
	default:
		mapping, err := s.mapping(config)
		if err != nil {
			return err
		}
		s.resource, namespaced = mapping.Resource, mapping.Scope.Name() == meta.RESTScopeNameNamespace
	}
	switch {
	case !namespaced && s.NamespaceGiven:
		return &TemplateError{fmt.Sprintf("--namespace: objects of kind %s have no namespace", gvk.Kind)}
	case !namespaced:
		s.Namespace = ""
	}
	if s.AssignNodes && gvk != podGVK {
		return &TemplateError{fmt.Sprintf("--assign-nodes applies to pods, not to kind %s", gvk.Kind)}
	}
	return nil
}

// mapping asks the API server for the resource of a kind, and checks that the kind of the command line is that of the template.
func (s *scaler) mapping(config *rest.Config) (*meta.RESTMapping, error) {
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	cached := memory.NewMemCacheClient(d)
	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)
	gvk := s.maker.gvk
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("the cluster has no kind %s of %s; create its CustomResourceDefinition first", gvk.Kind, gvk.GroupVersion())
	}
	if err != nil || s.Resource != nil || strings.EqualFold(string(s.Kind), gvk.Kind) {
		return mapping, err
	}
	named, err := mapper.ResourceFor(schema.ParseGroupResource(string(s.Kind)).WithVersion(""))
	if err != nil || named.GroupResource() != mapping.Resource.GroupResource() {
		return nil, &TemplateError{fmt.Sprintf("the template renders a %s (%s), not a %s", gvk.Kind, mapping.Resource.GroupResource(), s.Kind)}
	}
	return mapping, nil
}

func (s *scaler) findNodes(ctx context.Context, meta metadata.Interface) error {
	nodes := meta.Resource(corev1.SchemeGroupVersion.WithResource("nodes"))
	err := eachPage(ctx, nodes, "", func(o *metav1.PartialObjectMetadata) { s.nodes = append(s.nodes, o.Name) })
	if err == nil && len(s.nodes) == 0 {
		err = fmt.Errorf("the cluster has no node to assign pods to")
	}
	return err
}

// found is a member that exists.
type found struct {
	uid         types.UID
	terminating bool
}

// members are the objects with the label of this set.
func (s *scaler) members(ctx context.Context) (map[string]found, error) {
	out := map[string]found{}
	err := eachPage(ctx, s.metadata, Label+"="+s.Name, func(o *metav1.PartialObjectMetadata) {
		out[o.Name] = found{uid: o.UID, terminating: o.DeletionTimestamp != nil}
	})
	return out, err
}

func eachPage(ctx context.Context, r metadata.ResourceInterface, selector string, do func(*metav1.PartialObjectMetadata)) error {
	opts := metav1.ListOptions{LabelSelector: selector, Limit: pageSize}
	for {
		page, err := r.List(ctx, opts)
		if err != nil {
			return err
		}
		for i := range page.Items {
			do(&page.Items[i])
		}
		if opts.Continue = page.Continue; opts.Continue == "" {
			return nil
		}
	}
}

func (s *scaler) member(i int) string { return fmt.Sprintf("%s-%0*d", s.Name, s.Digits, i) }

// checkDigits returns an error if a member has the number of a desired one and another name: the set was created with another --serial-length, and would be deleted
// and created again.
func (s *scaler) checkDigits(have map[string]found) error {
	for _, name := range slices.Sorted(maps.Keys(have)) {
		digits, ok := strings.CutPrefix(name, s.Name+"-")
		n, err := strconv.Atoi(digits)
		if !ok || err != nil || n < 0 || n >= s.Replicas || name == s.member(n) || have[name].terminating {
			continue
		}
		return &TemplateError{fmt.Sprintf("--serial-length %d: %s %q exists, with another length of its number; pass --serial-length %d, or delete the set first (--replicas 0)", s.Digits, s.Kind, name, len(digits))}
	}
	return nil
}

// count counts a write that succeeded.
func (s *scaler) count(n *atomic.Int64, err error) error {
	if err != nil {
		return err
	}
	n.Add(1)
	if done := s.done.Add(1); s.Progress != nil {
		s.Progress(int(done), s.total)
	}
	return nil
}

func (s *scaler) create(ctx context.Context, i int) error {
	obj, err := s.maker.make(s.Name, Values{Name: s.member(i), Namespace: s.Namespace, Index: i})
	if err != nil {
		return err
	}
	if pod, ok := obj.(*corev1.Pod); ok && len(s.nodes) > 0 {
		pod.Spec.NodeName = s.nodes[i%len(s.nodes)]
	}
	for {
		err := s.send(ctx, obj)
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		if again, err := s.occupied(ctx, obj.GetName()); !again {
			return err
		}
	}
}

// send creates an object.
func (s *scaler) send(ctx context.Context, obj object) error {
	if s.client != nil {
		return s.client.Post().NamespaceIfScoped(s.Namespace, s.Namespace != "").Resource(s.resource.Resource).Body(obj).Do(ctx).Error()
	}
	values, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return err
	}
	_, err = s.objects.Create(ctx, &unstructured.Unstructured{Object: values}, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	return err
}

// occupied reads the object that prevented a create. A member that another process created counts as ours; for one that is
// terminating it waits and returns again == true; for an object without our label it returns an error.
func (s *scaler) occupied(ctx context.Context, name string) (again bool, err error) {
	o, err := s.metadata.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, err
	case o.Labels[Label] != s.Name:
		return false, fmt.Errorf("%s %q exists and was not created by scale; choose another name than %q", s.Kind, name, s.Name)
	case o.DeletionTimestamp == nil:
		return false, nil
	}
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-time.After(50 * time.Millisecond):
		return true, nil
	}
}

func (s *scaler) remove(ctx context.Context, name string, uid types.UID) error {
	background := metav1.DeletePropagationBackground // the default of some old kinds leaves their dependents
	err := s.metadata.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it was deleted in between; an object of that name is a new one
	}
	return err
}
