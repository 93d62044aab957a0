package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"github.com/rehearse-k8s/rehearse/internal/snapshot"
)

var nodeKind = schema.GroupKind{Kind: "Node"}

// isAnswer reports whether an error is an answer of the API server, and not a connection that failed.
func isAnswer(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// work is one object during its restore.
type work struct {
	saved    *unstructured.Unstructured // as in the snapshot
	obj      *unstructured.Unstructured // as it is created
	original snapshot.Original
	resource resource
	client   dynamic.ResourceInterface
	owners   snapshot.Owners
	relinked []metav1.OwnerReference // the references to owners that were created
	lost     int                     // number of references to owners that neither the restore nor the live object has
	// complete and statusComplete report whether all UIDs in the object and in its status are those of created objects.
	complete, statusComplete bool
}

// outcome says what happened to an object.
type outcome int

const (
	created outcome = iota
	existed
	resumed // it exists because an earlier restore created it
	updated
)

// object restores one object. An *errLater and an answer of the API server are errors of this object; other errors end the restore.
func (r *restorer) object(ctx context.Context, saved *unstructured.Unstructured) error {
	w := &work{saved: saved, obj: saved.DeepCopy()}
	obj := w.obj
	var ok bool
	if w.resource, ok = r.kind(obj.GroupVersionKind()); !ok {
		return &errLater{fmt.Sprintf("the API server does not serve kind %s of %s", obj.GetKind(), obj.GetAPIVersion())}
	}
	w.client = r.dynamic.Resource(w.resource.GroupVersionResource)
	if w.resource.namespaced {
		w.client = r.dynamic.Resource(w.resource.GroupVersionResource).Namespace(obj.GetNamespace())
	}
	w.original = snapshot.Detach(obj)
	w.relinkOwners(r.lookup)
	if o := w.owners; len(o.Pending)+len(o.Failed) > 0 {
		return &errLater{fmt.Sprintf("its owner %s was not restored", append(o.Failed, o.Pending...)[0])}
	}
	w.complete = snapshot.Relink(obj.Object, r.lookup)
	w.statusComplete = snapshot.Relink(w.original.Status, r.lookup)
	if obj.GroupVersionKind().GroupKind() == nodeKind && len(r.NodeAnnotations) > 0 {
		annotations := obj.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		for k, v := range r.NodeAnnotations {
			annotations[k] = v
		}
		obj.SetAnnotations(annotations)
	}
	id, result, err := r.write(ctx, w)
	if err != nil {
		r.setUID(w, id) // without a status, it is an owner all the same
		return err
	}
	return r.record(w, id, result)
}

// relinkOwners replaces the UIDs of the owners.
func (w *work) relinkOwners(lookup snapshot.Lookup) {
	w.owners = snapshot.RelinkOwners(w.obj, lookup)
	w.relinked, w.lost = w.obj.GetOwnerReferences(), len(w.owners.Unknown)
}

// keepOwners adds the references of the live object to owners that are not restored: they are valid in the cluster.
func (w *work) keepOwners(live *unstructured.Unstructured) {
	if len(w.owners.Unknown) == 0 {
		return
	}
	refs := slices.Clone(w.relinked)
	w.lost = 0
	for _, name := range w.owners.Unknown {
		known := live.GetOwnerReferences()
		if i := slices.IndexFunc(known, func(o metav1.OwnerReference) bool { return o.Kind+" "+o.Name == name }); i >= 0 {
			refs = append(refs, known[i])
		} else {
			w.lost++
		}
	}
	w.obj.SetOwnerReferences(refs)
}

// write creates the object and writes its status, or does what the policy says if it exists.
func (r *restorer) write(ctx context.Context, w *work) (types.UID, outcome, error) {
	live, err := r.create(ctx, w)
	if apierrors.IsInvalid(err) && snapshot.DropAllocations(w.obj) {
		first := err
		if live, err = r.create(ctx, w); err == nil {
			r.Warn("%s has other addresses or ports than in the snapshot: %v", describe(w.saved), first)
		}
	}
	if apierrors.IsAlreadyExists(err) {
		return r.existing(ctx, w)
	}
	if err != nil {
		return "", created, err
	}
	if node, ok := live.(*unstructured.Unstructured); ok && w.resource.groupKind() == nodeKind {
		if err := r.restoreTaints(ctx, w, node); err != nil {
			return live.GetUID(), created, err
		}
	}
	return live.GetUID(), created, r.writeStatus(ctx, w, live)
}

// create creates the object, without its status.
func (r *restorer) create(ctx context.Context, w *work) (written, error) {
	if w.resource.groupKind() != nodeKind { // restoreTaints reads nodes in JSON
		if live, err := r.protobuf.create(ctx, w); !errors.Is(err, errNeedsJSON) {
			return live, err
		}
	}
	return w.client.Create(ctx, w.obj, metav1.CreateOptions{FieldManager: Manager})
}

// restoreTaints removes the taint that the API server adds to a new node.
func (r *restorer) restoreTaints(ctx context.Context, w *work, live *unstructured.Unstructured) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		want, ok, _ := unstructured.NestedSlice(w.obj.Object, "spec", "taints")
		have, _, _ := unstructured.NestedSlice(live.Object, "spec", "taints")
		if equality.Semantic.DeepEqual(want, have) {
			return nil
		}
		if unstructured.RemoveNestedField(live.Object, "spec", "taints"); ok {
			_ = unstructured.SetNestedSlice(live.Object, want, "spec", "taints") // spec is an object
		}
		result, err := w.client.Update(ctx, live, metav1.UpdateOptions{FieldManager: Manager})
		if err == nil {
			live.Object = result.Object
			return nil
		}
		if newest, e := w.client.Get(ctx, w.obj.GetName(), metav1.GetOptions{}); e == nil {
			live.Object = newest.Object
		}
		return err
	})
}

// writeStatus writes the saved status to an object in the API.
func (r *restorer) writeStatus(ctx context.Context, w *work, live written) error {
	if w.original.Status == nil || !w.resource.status {
		return nil
	}
	id := live.GetUID()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		err := r.putStatus(ctx, w, live)
		if !apierrors.IsConflict(err) {
			return err
		}
		newest, e := w.client.Get(ctx, live.GetName(), metav1.GetOptions{})
		if e != nil {
			return e
		}
		if newest.GetUID() == id { // otherwise the object of this restore was deleted: the conflict stays
			live = newest
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	return nil
}

// putStatus sends one request that writes the saved status to live.
func (r *restorer) putStatus(ctx context.Context, w *work, live written) error {
	status := w.original.StatusFor(live.GetGeneration())
	obj, ok := live.(*unstructured.Unstructured)
	if !ok {
		err := r.protobuf.updateStatus(ctx, w, live, status)
		if !errors.Is(err, errNeedsJSON) {
			return err
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
		if err != nil {
			return err
		}
		obj = &unstructured.Unstructured{Object: content}
		obj.SetGroupVersionKind(w.resource.gvk())
	}
	obj.Object["status"] = status
	_, err := w.client.UpdateStatus(ctx, obj, metav1.UpdateOptions{FieldManager: Manager})
	return err
}

// existing does what the policy says with an object that exists.
func (r *restorer) existing(ctx context.Context, w *work) (types.UID, outcome, error) {
	live, err := w.client.Get(ctx, w.obj.GetName(), metav1.GetOptions{})
	if err != nil {
		return "", existed, err // NotFound: another client has deleted it meanwhile; the next round creates it
	}
	k := w.resource.groupKind()
	switch {
	// With the policy Fail, an object that Restore wrote is from an earlier round. A replay creates each object once, so there it is from an earlier replay.
	case r.IfExists == Fail && !snapshot.ExistsEverywhere(k, w.obj.GetName()) && (r.replaying || !wrote(live, "")):
		return live.GetUID(), existed, &existsError{objects: []string{describe(w.saved)}, count: 1, late: true}
	case r.IfExists == Update:
		if live, err = r.replace(ctx, w, live); err != nil {
			return "", updated, err
		}
		return live.GetUID(), updated, r.writeStatus(ctx, w, live)
	case !wrote(live, ""):
		return live.GetUID(), existed, nil
	case !wrote(live, "status"):
		err = r.writeStatus(ctx, w, live)
	}
	return live.GetUID(), resumed, err
}

// replace updates an existing object with the saved one.
func (r *restorer) replace(ctx context.Context, w *work, live *unstructured.Unstructured) (result *unstructured.Unstructured, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		w.keepSelector(live)
		w.keepOwners(live)
		w.obj.SetResourceVersion(live.GetResourceVersion())
		w.obj.SetUID(live.GetUID())
		result, err = w.client.Update(ctx, w.obj, metav1.UpdateOptions{FieldManager: Manager})
		if apierrors.IsConflict(err) {
			if newest, e := w.client.Get(ctx, w.obj.GetName(), metav1.GetOptions{}); e == nil {
				live = newest
			}
		}
		return err
	})
	return result, err
}

// keepSelector keeps the selector and the template of a live Job, which are immutable and contain its UID.
func (w *work) keepSelector(live *unstructured.Unstructured) {
	if w.resource.groupKind() != (schema.GroupKind{Group: "batch", Kind: "Job"}) {
		return
	}
	for _, field := range []string{"selector", "template"} {
		if v, ok, _ := unstructured.NestedMap(live.Object, "spec", field); ok {
			_ = unstructured.SetNestedMap(w.obj.Object, v, "spec", field) // spec is an object
		}
	}
}

// wrote reports whether Restore wrote an object, or its subresource.
func wrote(live *unstructured.Unstructured, subresource string) bool {
	return slices.ContainsFunc(live.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == Manager && f.Subresource == subresource
	})
}

// setUID stores the UID of the object in the cluster, if it exists.
func (r *restorer) setUID(w *work, id types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.original.UID != "" && id != "" {
		r.uids[string(w.original.UID)] = uid{created: string(id)}
	}
}

// record stores what happened to an object, and what remains to be done with it.
func (r *restorer) record(w *work, id types.UID, result outcome) error {
	r.setUID(w, id)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch result {
	case created:
		r.result.Created++
	case updated:
		r.result.Updated++
	default:
		r.result.Existed++
	}
	if result == existed {
		return nil // an object of the user
	}
	if w.lost > 0 && result != resumed {
		if r.orphans++; r.orphan == "" {
			r.orphan = fmt.Sprintf("%s (owner %s)", describe(w.saved), w.owners.Unknown[0])
		}
	}
	if w.resource.groupKind() == snapshot.CRD {
		r.definitions = append(r.definitions, defined(w.saved)...)
	}
	if w.original.Terminating {
		r.terminating = append(r.terminating, deletion{resource: w.resource, client: w.client, name: w.saved.GetName(), uid: id, original: w.original})
	}
	if w.complete && w.statusComplete {
		return nil
	}
	return r.references.add(map[string]any{"object": w.saved.Object, "spec": !w.complete})
}
