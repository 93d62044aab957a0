package stage

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/internal/stage/render"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// playRequests returns an ordered list of requests. It also applies every operation to a copy of the object, so
// that later operations see the result, and omits operations that change nothing.
func playRequests(d *Decision, o Object, m render.Moment) (e Effects, step int, err error) {
	return playOn(&working{object: o, kind: d.chosen.Kind, values: ValuesOf(o)}, d, m)
}

func playOn(w *working, d *Decision, m render.Moment) (e Effects, step int, err error) {
	e = Effects{Stage: d.Stage, UID: d.UID, ResourceVersion: d.ResourceVersion}
	for i := d.step; i < len(d.chosen.Operations); i++ {
		op := &d.chosen.Operations[i]
		m.Step = i
		var r *Request
		switch {
		case op.Event != nil:
			e.Events = append(e.Events, Event{Type: op.Event.Type, Reason: op.Event.Reason, Message: op.Event.Message, Step: i})
		case e.Delete: // after a delete only Events are possible
		case op.Delete:
			e.Delete, e.DeleteStep = true, i
		case op.Finalizers != nil:
			r = w.changeFinalizers(op)
		case op.patch != nil:
			r, err = w.patch(op.patch, m)
		case op.apply != nil:
			r, err = w.apply(op.apply, m)
		}
		if err != nil {
			return Effects{}, i, err
		}
		if r != nil {
			r.Step = i
			e.Requests = append(e.Requests, *r)
		}
	}
	return e, 0, nil
}

// working is the object with the effects of the requests so far.
type working struct {
	object Object
	kind   Kind
	values map[string]any
}

// ValuesOf converts an object to JSON values and keeps whole numbers. The caller owns them.
func ValuesOf(o Object) map[string]any {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return runtime.DeepCopyJSON(u.Object)
	}
	values, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return map[string]any{}
	}
	return values
}

// request is a request for the object itself.
func (w *working) request(kind types.PatchType, body any) *Request {
	return &Request{
		Own: true, UID: w.object.GetUID(), Kind: w.kind,
		Namespace: w.object.GetNamespace(), Name: w.object.GetName(), Type: kind, Body: body,
	}
}

// changeFinalizers writes the whole list: the resourceVersion in the precondition makes this safe.
func (w *working) changeFinalizers(op *Operation) *Request {
	metadata, _ := w.values["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		w.values["metadata"] = metadata
	}
	before, _, _ := unstructured.NestedStringSlice(w.values, "metadata", "finalizers")
	after := changedFinalizers(before, op.Finalizers)
	if slices.Equal(before, after) {
		return nil
	}
	var list any // null removes the field
	if len(after) > 0 {
		items := make([]any, len(after))
		for i, f := range after {
			items[i] = f
		}
		list, metadata["finalizers"] = items, items
	} else {
		delete(metadata, "finalizers")
	}
	return w.request(types.MergePatchType, map[string]any{"metadata": map[string]any{"finalizers": list}})
}

func (w *working) patch(p *patch, m render.Moment) (*Request, error) {
	rendered, err := p.template.Render(m, w.values)
	if err != nil || rendered == nil {
		return nil, err
	}
	var body any
	if p.kind == types.JSONPatchType {
		body, err = rooted(rendered, p.root)
	} else {
		var values map[string]any
		if values, err = asMapping(rendered); p.root != "" {
			values = map[string]any{p.root: values}
		}
		if wrong := ownIdentity(values); err == nil && wrong != "" {
			err = errors.New(wrong)
		}
		body = values
	}
	if err != nil {
		return nil, err
	}
	changed, err := w.change(p.kind, p.subresource, body)
	if err != nil || !changed {
		return nil, err
	}
	r := w.request(p.kind, body)
	r.Subresource, r.As = p.subresource, p.as
	return r, nil
}

// ownIdentity rejects a merge patch with a UID or resourceVersion, because these fields contain the preconditions.
func ownIdentity(values map[string]any) string {
	metadata, _ := values["metadata"].(map[string]any)
	for _, key := range []string{"uid", "resourceVersion"} {
		if metadata[key] != nil {
			return "a patch must not set metadata." + key + ": every write contains it as a precondition"
		}
	}
	return ""
}

// rooted prefixes the paths of JSON patch operations with a field.
func rooted(rendered any, root string) (any, error) {
	ops, ok := rendered.([]any)
	if !ok {
		return nil, errors.New("the template of a JSON patch does not render a list of operations")
	}
	if root == "" {
		return ops, nil
	}
	prefix := "/" + root
	out := make([]any, len(ops))
	for i, raw := range ops {
		op, ok := raw.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("operation %d is not a mapping", i)
		}
		moved := map[string]any{}
		for k, v := range op {
			if text, ok := v.(string); ok && (k == "path" || k == "from") {
				v = strings.TrimSuffix(prefix+text, "/")
			}
			moved[k] = v
		}
		out[i] = moved
	}
	return out, nil
}

// change applies a patch to the copy and reports whether it changes the copy. The effect of other subresources than
// status is unknown here, except for the replicas of a scale; such a patch is sent.
func (w *working) change(kind types.PatchType, subresource string, body any) (bool, error) {
	target := w.values
	switch subresource {
	case "", "status":
	case "scale":
		replicas, found, _ := unstructured.NestedFieldNoCopy(w.values, "spec", "replicas")
		if !found {
			return true, nil
		}
		target = map[string]any{"spec": map[string]any{"replicas": replicas}}
	default:
		return true, nil
	}
	after, err := patched(target, kind, body, w.kind)
	if err != nil {
		return false, err
	}
	if reflect.DeepEqual(target, after) {
		return false, nil
	}
	if subresource == "scale" {
		if replicas, found, _ := unstructured.NestedFieldNoCopy(after, "spec", "replicas"); found {
			return true, unstructured.SetNestedField(w.values, replicas, "spec", "replicas")
		}
		return true, nil
	}
	w.values = after
	return true, nil
}

func patched(target map[string]any, kind types.PatchType, body any, of Kind) (map[string]any, error) {
	switch kind {
	case types.JSONPatchType:
		ops, _ := body.([]any)
		after, err := applyJSONPatch(target, ops)
		if err != nil {
			return nil, fmt.Errorf("JSON patch: %w", err)
		}
		out, ok := after.(map[string]any)
		if !ok {
			return nil, errors.New("JSON patch: the result is not an object")
		}
		return out, nil
	case types.StrategicMergePatchType:
		values, _ := body.(map[string]any)
		if schema := strategicSchema(of); schema != nil {
			out, err := strategicpatch.StrategicMergeMapPatch(
				runtime.DeepCopyJSON(target), runtime.DeepCopyJSON(values), schema)
			if err != nil {
				return nil, fmt.Errorf("strategic merge: %w", err)
			}
			return out, nil
		}
	}
	values, _ := body.(map[string]any)
	return mergePatch(target, values), nil
}

// apply renders a whole object of any kind.
func (w *working) apply(a *applying, m render.Moment) (*Request, error) {
	rendered, err := a.template.Render(m, w.values)
	if err != nil || rendered == nil {
		return nil, err
	}
	body, err := asMapping(rendered)
	if err != nil {
		return nil, err
	}
	u := unstructured.Unstructured{Object: body}
	apiVersion, kind, name := u.GetAPIVersion(), u.GetKind(), u.GetName()
	switch {
	case apiVersion == "":
		return nil, errors.New("the object has no apiVersion")
	case kind == "":
		return nil, errors.New("the object has no kind")
	case name == "":
		return nil, errors.New("the object has no metadata.name: a generated name could not be repeated without creating a second object")
	}
	r := &Request{
		Verb: VerbApply, Kind: Kind{APIVersion: apiVersion, Kind: kind}, Namespace: u.GetNamespace(), Name: name,
		Subresource: a.subresource, Type: a.kind, As: a.as, Body: body,
	}
	if a.kind == types.StrategicMergePatchType && noStrategic(r.Kind) {
		return nil, fmt.Errorf("the API does not support strategic merge patches of %s, a custom resource; use type merge", r.Kind)
	}
	if r.Namespace == "" {
		r.Namespace = w.object.GetNamespace()
	}
	if r.Kind != w.kind || r.Namespace != w.object.GetNamespace() || name != w.object.GetName() {
		return r, nil
	}
	// The object itself exists: send a patch, or nothing if it has no effect.
	if wrong := ownIdentity(body); wrong != "" {
		return nil, errors.New(wrong)
	}
	r.Own, r.UID = true, w.object.GetUID()
	merge := a.kind
	if merge == types.ApplyPatchType {
		merge = types.MergePatchType
		if strategicSchema(w.kind) != nil {
			merge = types.StrategicMergePatchType
		}
	}
	// Typed objects contain no apiVersion and kind, so these alone are no change.
	plain := make(map[string]any, len(body))
	for k, v := range body {
		if k != "apiVersion" && k != "kind" {
			plain[k] = v
		}
	}
	changed, err := w.change(merge, a.subresource, plain)
	if err != nil || !changed {
		return nil, err
	}
	return r, nil
}
