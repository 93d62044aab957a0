//go:build unix

package rehearsal

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/rehearse-k8s/rehearse/internal/store"
)

// fakeCluster is a cluster in memory. It checks UIDs and resource versions, keeps an object until its finalizers are
// removed, and deletes dependents with their owner. A mirror observes each change at once.
type fakeCluster struct {
	mirror   *mirror
	objects  map[string]*unstructured.Unstructured
	revision int
	// requests are the writes that were requested.
	requests []string
	// fail, if set, returns the error with which a request is rejected.
	fail func(verb, key string) error
}

// fakeExternal returns an external cluster over a fake cluster.
func fakeExternal(t *testing.T) (*externalCluster, *fakeCluster) {
	t.Helper()
	g := externalOf(t)
	g.harness.mapper = kinds()
	f := &fakeCluster{mirror: g.mirror, objects: map[string]*unstructured.Unstructured{}}
	g.client = f
	return g, f
}

func (f *fakeCluster) Resource(gvr schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	f.mirror.resources[gvr.GroupResource()] = gvr
	return &fakeResource{cluster: f, gvr: gvr}
}

// fakeResource is one resource of a fake cluster, in a namespace or in none.
type fakeResource struct {
	dynamic.NamespaceableResourceInterface
	cluster   *fakeCluster
	gvr       schema.GroupVersionResource
	namespace string
}

func (r *fakeResource) Namespace(namespace string) dynamic.ResourceInterface {
	return &fakeResource{cluster: r.cluster, gvr: r.gvr, namespace: namespace}
}

// begin logs a request and returns its key, and the error with which it is rejected.
func (r *fakeResource) begin(ctx context.Context, verb, name, detail string) (string, error) {
	key := keyOf(r.gvr.GroupResource(), r.namespace, name)
	if verb != "get" {
		r.cluster.requests = append(r.cluster.requests, strings.TrimSpace(verb+" "+strings.TrimPrefix(key, "/")+" "+detail))
	}
	if f := r.cluster.fail; f != nil {
		if err := f(verb, key); err != nil {
			return key, err
		}
	}
	if verb != "create" && r.cluster.objects[key] == nil {
		return key, apierrors.NewNotFound(r.gvr.GroupResource(), name)
	}
	return key, ctx.Err()
}

func (r *fakeResource) Get(ctx context.Context, name string, _ metav1.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	key, err := r.begin(ctx, "get", name, "")
	if err != nil {
		return nil, err
	}
	return r.cluster.objects[key].DeepCopy(), nil
}

func (r *fakeResource) Create(ctx context.Context, o *unstructured.Unstructured, _ metav1.CreateOptions, sub ...string) (*unstructured.Unstructured, error) {
	key, err := r.begin(ctx, "create", o.GetName(), strings.Join(sub, ""))
	switch {
	case err != nil:
		return nil, err
	case len(sub) > 0:
		return o, nil
	case r.cluster.objects[key] != nil:
		return nil, apierrors.NewAlreadyExists(r.gvr.GroupResource(), o.GetName())
	}
	o = o.DeepCopy()
	o.SetNamespace(r.namespace)
	o.SetUID(types.UID(fmt.Sprint("uid-", r.cluster.revision+1)))
	return r.cluster.put(key, o), nil
}

func (r *fakeResource) Update(ctx context.Context, o *unstructured.Unstructured, _ metav1.UpdateOptions, _ ...string) (*unstructured.Unstructured, error) {
	key, err := r.begin(ctx, "update", o.GetName(), "")
	if err != nil {
		return nil, err
	}
	if r.cluster.objects[key].GetResourceVersion() != o.GetResourceVersion() {
		return nil, apierrors.NewConflict(r.gvr.GroupResource(), o.GetName(), fmt.Errorf("the object has changed"))
	}
	return r.cluster.put(key, o.DeepCopy()), nil
}

func (r *fakeResource) Patch(ctx context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*unstructured.Unstructured, error) {
	key, err := r.begin(ctx, "patch", name, "")
	if err != nil {
		return nil, err
	}
	patch := &unstructured.Unstructured{Object: map[string]any{}}
	if err := json.Unmarshal(data, &patch.Object); err != nil {
		return nil, err
	}
	o := r.cluster.objects[key].DeepCopy()
	if uid := patch.GetUID(); uid != "" && uid != o.GetUID() || patch.GetResourceVersion() != "" && patch.GetResourceVersion() != o.GetResourceVersion() {
		return nil, apierrors.NewConflict(r.gvr.GroupResource(), name, fmt.Errorf("the object has changed"))
	}
	if labels := patch.GetLabels(); labels != nil {
		o.SetLabels(labels)
	}
	if _, found, _ := unstructured.NestedSlice(patch.Object, "metadata", "finalizers"); found {
		o.SetFinalizers(patch.GetFinalizers())
	}
	return r.cluster.put(key, o), nil
}

func (r *fakeResource) Delete(ctx context.Context, name string, o metav1.DeleteOptions, _ ...string) error {
	detail := ""
	if o.GracePeriodSeconds != nil {
		detail = fmt.Sprintf("within %ds", *o.GracePeriodSeconds)
	}
	key, err := r.begin(ctx, "delete", name, detail)
	if err != nil {
		return err
	}
	is := r.cluster.objects[key].DeepCopy()
	if p := o.Preconditions; p != nil && p.UID != nil && *p.UID != is.GetUID() {
		return apierrors.NewConflict(r.gvr.GroupResource(), name, fmt.Errorf("the object has another UID"))
	}
	now := metav1.Now()
	is.SetDeletionTimestamp(&now)
	r.cluster.put(key, is)
	return nil
}

// put stores the next state of an object. A deleted object without finalizers is removed, with its dependents.
func (f *fakeCluster) put(key string, o *unstructured.Unstructured) *unstructured.Unstructured {
	if before := f.objects[key]; before != nil && reflect.DeepEqual(before.Object, o.Object) {
		return o
	}
	f.revision++
	o.SetResourceVersion(fmt.Sprint(f.revision))
	resource, _, _ := strings.Cut(strings.TrimPrefix(key, "/"), "/")
	gone := o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0
	kind := watch.Modified
	if f.objects[key] = o; gone {
		delete(f.objects, key)
		kind = watch.Deleted
	}
	f.mirror.handle(schema.ParseGroupResource(resource), watch.Event{Type: kind, Object: o.DeepCopy()})
	if gone {
		for _, other := range slices.Sorted(maps.Keys(f.objects)) {
			if d := f.objects[other]; d != nil && slices.ContainsFunc(d.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == o.GetUID() }) {
				d = d.DeepCopy()
				d.SetDeletionTimestamp(o.GetDeletionTimestamp())
				f.put(other, d)
			}
		}
	}
	return o.DeepCopy()
}

// add stores an object as another user would, and returns its key and its state.
func (f *fakeCluster) add(kind, namespace, name, owner string, finalizers ...string) (string, *unstructured.Unstructured) {
	key, kv := thing(kind, namespace, name, fmt.Sprint("uid-", f.revision+1), owner, 0)
	o, err := objectOf(kv)
	if err != nil {
		panic(err)
	}
	if kind == "Web" {
		o.SetAPIVersion("example.com/v2")
		key = keyOf(schema.GroupResource{Group: "example.com", Resource: "webs"}, namespace, name)
	}
	if len(finalizers) > 0 {
		o.SetFinalizers(finalizers)
	}
	return key, f.put(key, o)
}

// keys returns the keys of all objects.
func (f *fakeCluster) keys() string { return strings.Join(slices.Sorted(maps.Keys(f.objects)), " ") }

// capture records the current objects as those from before the first run.
func (f *fakeCluster) capture(g *externalCluster) {
	g.initialState, _, _ = g.mirror.snapshot()
	f.requests = nil
}

var (
	pods     = schema.GroupResource{Resource: "pods"}
	kindWebs = schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "webs"}
)

// snapshotOf returns the objects that the mirror of a cluster has observed.
func snapshotOf(g *externalCluster) map[string]store.KV {
	all, _, _ := g.mirror.snapshot()
	return all
}

// namespaceKinds also knows namespaces.
type namespaceKinds struct{ meta.RESTMapper }

func (m namespaceKinds) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if kind.Kind == "Namespace" {
		return &meta.RESTMapping{Resource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, Scope: meta.RESTScopeRoot}, nil
	}
	return m.RESTMapper.RESTMapping(kind, versions...)
}
