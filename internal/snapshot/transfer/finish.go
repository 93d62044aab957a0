package transfer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/rehearse-k8s/rehearse/internal/snapshot"
)

// definitionTimeout is how long the API server may take to serve a kind after its definition was created.
const definitionTimeout = 30 * time.Second

// defined returns the kinds that a custom resource definition defines.
func defined(crd *unstructured.Unstructured) (kinds []schema.GroupVersionKind) {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		if m, ok := v.(map[string]any); ok && m["served"] == true {
			name, _ := m["name"].(string)
			kinds = append(kinds, schema.GroupVersionKind{Group: group, Version: name, Kind: kind})
		}
	}
	return kinds
}

// awaitDefinitions waits until the API server serves the kinds of the definitions of this round. A kind that it does not serve,
// because its definition failed or is invalid, is reported with its objects.
func (r *restorer) awaitDefinitions(ctx context.Context) error {
	if len(r.definitions) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, definitionTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond) // discovery has no notification to wait for
	defer tick.Stop()
	for {
		if err := r.refresh(); err != nil {
			return err
		}
		missing := slices.IndexFunc(r.definitions, func(k schema.GroupVersionKind) bool { _, ok := r.kind(k); return !ok })
		if missing < 0 {
			break
		}
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
		}
		if context.Cause(ctx) != context.DeadlineExceeded {
			return ctx.Err()
		}
		r.Warn("the API server does not serve %s %s after its definition was created", r.definitions[missing].Kind, definitionTimeout)
		break
	}
	r.definitions = nil
	return nil
}

// completeReferences writes the objects again that contain the UID of an object which was created after them, such as a Job whose
// status lists pods.
func (r *restorer) completeReferences(ctx context.Context) error {
	return r.references.each(func(doc *unstructured.Unstructured) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		content, _, _ := unstructured.NestedMap(doc.Object, "object")
		saved := &unstructured.Unstructured{Object: content}
		err := r.completeReference(context.WithoutCancel(ctx), saved.DeepCopy(), doc.Object["spec"] == true)
		if err == nil || apierrors.IsNotFound(err) { // another client has deleted it
			return nil
		}
		if !isAnswer(err) {
			return err
		}
		r.Warn("%s refers to objects by their saved UIDs: %v", describe(saved), err)
		return nil
	})
}

func (r *restorer) completeReference(ctx context.Context, obj *unstructured.Unstructured, spec bool) error {
	w := &work{saved: obj.DeepCopy(), obj: obj}
	w.resource, _ = r.kind(obj.GroupVersionKind()) // it has been created
	w.client = r.dynamic.Resource(w.resource.GroupVersionResource)
	if w.resource.namespaced {
		w.client = r.dynamic.Resource(w.resource.GroupVersionResource).Namespace(obj.GetNamespace())
	}
	live, err := w.client.Get(ctx, obj.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	w.original = snapshot.Detach(obj)
	w.relinkOwners(r.lookup)
	snapshot.Relink(obj.Object, r.lookup)
	snapshot.Relink(w.original.Status, r.lookup)
	if spec {
		if live, err = r.replace(ctx, w, live); err != nil {
			return err
		}
	}
	return r.writeStatus(ctx, w, live)
}

// deletion is an object that was terminating when it was saved.
type deletion struct {
	resource resource
	client   dynamic.ResourceInterface
	name     string
	uid      types.UID
	original snapshot.Original
}

// deleteTerminating deletes the objects that were terminating, dependents before owners and namespaces last. Their finalizers and grace
// periods keep them terminating, as in the saved cluster.
func (r *restorer) deleteTerminating(ctx context.Context) error {
	for _, d := range slices.Backward(r.terminating) {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := d.client.Delete(ctx, d.name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &d.uid}, PropagationPolicy: &d.original.Propagation, GracePeriodSeconds: d.original.GracePeriod,
		})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			if !isAnswer(err) {
				return err
			}
			r.Warn("%s %s is not terminating as in the snapshot: %v", d.resource.kind, d.name, err)
		}
	}
	return nil
}

// existsError reports objects that exist in the cluster, with the policy Fail.
type existsError struct {
	objects []string // the first of them
	count   int
	late    bool // found after the first write
}

func (e *existsError) Error() string {
	text := strings.Join(e.objects, ", ")
	if n := e.count - len(e.objects); n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	if e.late {
		return "an object of this name exists that this command has not created: " + text
	}
	return "exists in the cluster: " + text + "; nothing was restored"
}

// rejectExisting returns an error if objects of the snapshot exist, except for those that every cluster has.
func (r *restorer) rejectExisting(ctx context.Context) error {
	found := &existsError{}
	existing := map[schema.GroupVersionKind]map[types.NamespacedName]bool{}
	err := r.objects.each(func(obj *unstructured.Unstructured) error {
		k := obj.GroupVersionKind()
		names, ok := existing[k]
		if !ok {
			var err error
			if names, err = r.names(ctx, k); err != nil {
				return err
			}
			existing[k] = names
		}
		if names[types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}] && !snapshot.ExistsEverywhere(k.GroupKind(), obj.GetName()) {
			if found.count++; len(found.objects) < 3 {
				found.objects = append(found.objects, describe(obj))
			}
		}
		return nil
	})
	if err == nil && found.count > 0 {
		return found
	}
	return err
}

// names returns the names of the objects of a kind.
func (r *restorer) names(ctx context.Context, k schema.GroupVersionKind) (map[types.NamespacedName]bool, error) {
	out := map[types.NamespacedName]bool{}
	kind, ok := r.kind(k)
	if !ok {
		return out, nil // a definition of the snapshot defines it
	}
	opts := metav1.ListOptions{Limit: PageSize}
	for {
		page, err := r.metadata.Resource(kind.GroupVersionResource).List(ctx, opts)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			out[types.NamespacedName{Namespace: page.Items[i].Namespace, Name: page.Items[i].Name}] = true
		}
		if opts.Continue = page.Continue; opts.Continue == "" {
			return out, nil
		}
	}
}
