package transfer

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/rehearse-k8s/rehearse/internal/snapshot"
)

// effect says what a change did, if there is no error.
type effect int

const (
	applied effect = iota
	absent         // the object to delete did not exist
	leftOut
)

// generations are metadata.generation of one object in the recording and in the cluster; 0: unknown.
type generations struct {
	recorded, live int64
	deleting       bool // a change has requested the deletion, which may be complete
}

// resource returns the kind of a resource. A kind that is unknown may have been defined since the last discovery.
func (p *replayer) resource(of schema.GroupVersionResource) (resource, error) {
	find := func() (resource, bool) {
		p.kindsMu.RLock()
		defer p.kindsMu.RUnlock()
		for _, k := range p.kinds {
			if k.GroupVersionResource == of {
				return k, true
			}
		}
		return resource{}, false
	}
	k, ok := find()
	if !ok {
		if err := p.refresh(); err != nil {
			return k, err
		}
		if k, ok = find(); !ok {
			return k, &errLater{fmt.Sprintf("the API server does not serve %s in version %s", of.GroupResource(), of.Version)}
		}
	}
	return k, nil
}

// apply applies one change.
func (p *replayer) apply(ctx context.Context, c snapshot.Change) (effect, error) {
	if p.isIgnored(c) {
		return leftOut, nil
	}
	k, err := p.resource(c.Resource)
	if err != nil {
		return applied, err
	}
	if snapshot.LeaveOutKind(k.groupKind()) != "" {
		return leftOut, nil
	}
	var client dynamic.ResourceInterface = p.dynamic.Resource(k.GroupVersionResource)
	if k.namespaced {
		client = p.dynamic.Resource(k.GroupVersionResource).Namespace(c.Namespace)
	}
	switch c.Method {
	case snapshot.Create:
		return applied, p.create(ctx, k, client, c)
	case snapshot.Delete:
		return p.delete(ctx, k, client, c)
	}
	return applied, p.patch(ctx, k, client, c)
}

// isIgnored reports whether a change is of an object that no restore can use.
func (p *replayer) isIgnored(c snapshot.Change) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.Method == snapshot.Create {
		p.ignored[keyOf(c)] = snapshot.LeaveOut(&unstructured.Unstructured{Object: c.Template}) != ""
	}
	return p.ignored[keyOf(c)]
}

func (p *replayer) create(ctx context.Context, k resource, client dynamic.ResourceInterface, c snapshot.Change) error {
	obj := &unstructured.Unstructured{Object: c.Template}
	p.setGenerations(keyOf(c), obj.GetGeneration(), 0)
	if err := p.object(ctx, obj); err != nil {
		p.setFailed(string(obj.GetUID()))
		return err
	}
	if k.groupKind() == snapshot.CRD {
		if err := p.awaitDefinitions(ctx); err != nil {
			return err
		}
	}
	if obj.GetDeletionTimestamp() == nil {
		return nil
	}
	_, err := p.requestDeletion(ctx, client, c.Name, snapshot.Detach(obj.DeepCopy()))
	return err
}

// setFailed stores that the object with a UID of the recording could not be created.
func (r *restorer) setFailed(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id != "" && r.uids[id].created == "" {
		r.uids[id] = uid{failed: true}
	}
}

// requestDeletion deletes an object with the grace period and the propagation policy of the recording.
func (p *replayer) requestDeletion(ctx context.Context, client dynamic.ResourceInterface, name string, o snapshot.Original) (found bool, err error) {
	err = client.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &o.Propagation, GracePeriodSeconds: o.GracePeriod})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return true, err
}

// delete deletes an object that no longer existed in the recording: without a grace period and without finalizers. The namespace controller
// of the cluster removes the finalizer of a namespace.
func (p *replayer) delete(ctx context.Context, k resource, client dynamic.ResourceInterface, c snapshot.Change) (effect, error) {
	deleting := p.generationsOf(keyOf(c)).deleting
	p.mu.Lock()
	delete(p.generation, keyOf(c))
	p.mu.Unlock()
	zero := int64(0)
	found, err := p.requestDeletion(ctx, client, c.Name, snapshot.Original{GracePeriod: &zero, Propagation: metav1.DeletePropagationBackground})
	if err != nil {
		return applied, err
	}
	if !found && !deleting {
		return absent, nil
	}
	live, err := client.Get(ctx, c.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return applied, nil
	}
	if err != nil || live.GetDeletionTimestamp() == nil || len(live.GetFinalizers()) == 0 {
		return applied, err
	}
	patch := fmt.Appendf(nil, `{"metadata": {"uid": %q, "finalizers": null}}`, live.GetUID())
	_, err = client.Patch(ctx, c.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: Manager})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return applied, err
}

// patch applies a patch: a deletion that began, the binding of a pod, fields of the object, and its status.
func (p *replayer) patch(ctx context.Context, k resource, client dynamic.ResourceInterface, c snapshot.Change) error {
	obj := &unstructured.Unstructured{Object: c.Template}
	snapshot.RelinkOwners(obj, p.lookup)
	snapshot.Relink(obj.Object, p.lookup)
	if g := obj.GetGeneration(); g > 0 {
		p.setGenerations(keyOf(c), g, -1)
	}
	if obj.GetDeletionTimestamp() != nil {
		found, err := p.requestDeletion(ctx, client, c.Name, snapshot.Detach(obj.DeepCopy()))
		if err != nil {
			return err
		}
		if !found {
			return apierrors.NewNotFound(c.Resource.GroupResource(), c.Name)
		}
		p.setGenerations(keyOf(c), 0, -1)
		p.mu.Lock()
		p.generation[keyOf(c)].deleting = true
		p.mu.Unlock()
	}
	status, hasStatus := obj.Object["status"]
	delete(obj.Object, "status")
	snapshot.TrimPatch(obj.Object)
	if k.groupKind() == (schema.GroupKind{Kind: "Pod"}) {
		if err := p.bind(ctx, client, c, obj); err != nil {
			return err
		}
	}
	kind := types.MergePatchType
	if IsBuiltIn(k.gvk()) {
		kind = types.StrategicMergePatchType
	}
	send := func(patch map[string]any, subresources ...string) error {
		data, err := json.Marshal(patch)
		if err != nil {
			return err
		}
		live, err := client.Patch(ctx, c.Name, kind, data, metav1.PatchOptions{FieldManager: Manager}, subresources...)
		if err == nil {
			p.setGenerations(keyOf(c), 0, live.GetGeneration())
		}
		return err
	}
	if hasStatus && !k.status {
		obj.Object["status"] = status // an ordinary field
		hasStatus = false
	}
	if len(obj.Object) > 0 {
		if err := send(obj.Object); err != nil {
			return err
		}
	}
	if !hasStatus || k.groupKind() == snapshot.CRD || k.groupKind() == namespaceKind { // the API server sets these
		return nil
	}
	status, err := p.observed(ctx, client, c, status)
	if err != nil {
		return err
	}
	return send(map[string]any{"status": status}, "status")
}

// bind binds a pod to the node of a patch, which only the subresource can do.
func (p *replayer) bind(ctx context.Context, client dynamic.ResourceInterface, c snapshot.Change, patch *unstructured.Unstructured) error {
	node, _, _ := unstructured.NestedString(patch.Object, "spec", "nodeName")
	if node == "" {
		return nil
	}
	unstructured.RemoveNestedField(patch.Object, "spec", "nodeName")
	if spec, _ := patch.Object["spec"].(map[string]any); len(spec) == 0 {
		delete(patch.Object, "spec")
	}
	binding := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Binding", "metadata": map[string]any{"name": c.Name, "namespace": c.Namespace},
		"target": map[string]any{"apiVersion": "v1", "kind": "Node", "name": node},
	}}
	_, err := client.Create(ctx, binding, metav1.CreateOptions{FieldManager: Manager}, "binding")
	if apierrors.IsConflict(err) { // the scheduler of the cluster may have chosen the same node
		live, e := client.Get(ctx, c.Name, metav1.GetOptions{})
		if e != nil {
			return e
		}
		if on, _, _ := unstructured.NestedString(live.Object, "spec", "nodeName"); on == node {
			return nil
		}
	}
	return err
}

// observed returns a status for the generation of the object in the cluster.
func (p *replayer) observed(ctx context.Context, client dynamic.ResourceInterface, c snapshot.Change, status any) (any, error) {
	if !snapshot.HasObservedGeneration(status) {
		return status, nil
	}
	g := p.generationsOf(keyOf(c))
	if g.live == 0 {
		live, err := client.Get(ctx, c.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		g.live = live.GetGeneration()
		p.setGenerations(keyOf(c), 0, g.live)
	}
	return snapshot.Original{Status: status, Generation: g.recorded}.StatusFor(g.live), nil
}

// setGenerations stores the generations of an object that are not 0; -1 resets that in the cluster.
func (p *replayer) setGenerations(k objectKey, recorded, live int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.generation[k]
	if g == nil {
		g = &generations{}
		p.generation[k] = g
	}
	if recorded != 0 {
		g.recorded = recorded
	}
	if live != 0 {
		g.live = max(live, 0)
	}
}

func (p *replayer) generationsOf(k objectKey) generations {
	p.mu.Lock()
	defer p.mu.Unlock()
	if g := p.generation[k]; g != nil {
		return *g
	}
	return generations{}
}

// prepare stores which objects are left out, and the generations of the restored ones, to which the patches of their status refer.
func (p *replayer) prepare() error {
	for _, obj := range p.leftOut {
		k, _ := p.kind(obj.GroupVersionKind())
		p.ignored[objectKey{k.GroupResource(), obj.GetNamespace(), obj.GetName()}] = true
	}
	resources := map[schema.GroupVersionKind]resource{}
	return p.objects.each(func(obj *unstructured.Unstructured) error {
		n := obj.GetGeneration()
		if n == 0 || !snapshot.HasObservedGeneration(obj.Object["status"]) {
			return nil
		}
		k, ok := resources[obj.GroupVersionKind()]
		if !ok {
			k, _ = p.kind(obj.GroupVersionKind())
			resources[obj.GroupVersionKind()] = k
		}
		p.setGenerations(objectKey{k.GroupResource(), obj.GetNamespace(), obj.GetName()}, n, 0)
		return nil
	})
}
