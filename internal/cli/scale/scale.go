package scale

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// Label is on every object that scale created; its value is the set's name.
const Label = "rehearse-k8s.github.io/scale"

// writers is the number of concurrent requests. It hides the round-trip time; a server on the same machine is busy with
// fewer.
const writers = 32

// pageSize limits the answers to list requests, for sets of a hundred thousand objects.
const pageSize = 2000

// Kind is what can be scaled.
type Kind string

// The kinds.
const (
	Node Kind = "node"
	Pod  Kind = "pod"
)

func (k Kind) resource() string { return string(k) + "s" }

// Request is the desired size of a set.
type Request struct {
	Kind      Kind
	Name      string
	Namespace string // of pods; nodes have none
	Replicas  int
	Template  string            // empty: the built-in one
	Params    map[string]string // for the template
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
	client   rest.Interface
	metadata metadata.ResourceInterface
	nodes    []string
	done     atomic.Int64
	total    int
}

// Run creates missing members and deletes surplus ones. It returns a *TemplateError before anything is written.
func Run(ctx context.Context, config *rest.Config, r Request) (Result, error) {
	if r.Kind == Node {
		r.Namespace = ""
	}
	m, err := newMaker(r.Kind, r.Template, r.Params)
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
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = config.ContentType + ",application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	s.client = client.CoreV1().RESTClient()
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	s.metadata = meta.Resource(corev1.SchemeGroupVersion.WithResource(s.Kind.resource())).Namespace(s.Namespace)
	if s.AssignNodes && s.Kind == Pod {
		return s.findNodes(ctx, meta)
	}
	return nil
}

func (s *scaler) findNodes(ctx context.Context, meta metadata.Interface) error {
	nodes := meta.Resource(corev1.SchemeGroupVersion.WithResource(Node.resource()))
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

func (s *scaler) member(i int) string { return fmt.Sprintf("%s-%d", s.Name, i) }

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
		err := s.client.Post().NamespaceIfScoped(s.Namespace, s.Namespace != "").
			Resource(s.Kind.resource()).Body(obj).Do(ctx).Error()
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		if again, err := s.occupied(ctx, obj.GetName()); !again {
			return err
		}
	}
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
	err := s.metadata.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it was deleted in between; an object of that name is a new one
	}
	return err
}
