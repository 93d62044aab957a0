package simtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/history"
)

// Apply applies objects as `kubectl apply --server-side --force-conflicts` does: it creates those
// that do not exist. Each object is replaced by the API's answer.
func (w *World) Apply(objects ...Object) {
	for _, o := range objects {
		w.prepare(o)
		body := w.encode(o)
		w.send("apply", o, http.MethodPatch, w.urlOf(o, "", "fieldManager=user&force=true"), string(types.ApplyYAMLPatchType), body)
	}
}

// Create creates objects. Each object is replaced by the API's answer.
func (w *World) Create(objects ...Object) {
	for _, o := range objects {
		w.prepare(o)
		collection, _ := path.Split(w.urlOf(o, "", ""))
		w.send("create", o, http.MethodPost, strings.TrimSuffix(collection, "/"), "application/json", w.encode(o))
	}
}

// Update replaces an existing object. If o has a resourceVersion, it must be the current one, unless a fault has edited the
// object or created it again since: then the update replaces the object as it is. With "status" it replaces only the
// status.
func (w *World) Update(o Object, subresource ...string) {
	w.prepare(o)
	if w.isTarget(o) {
		w.turn()
		if u := w.truth.Get(w.resourceOf(o), o.GetNamespace(), o.GetName()); u != nil && o.GetResourceVersion() != "" {
			o.SetResourceVersion(u.GetResourceVersion())
			o.SetUID(u.GetUID())
		}
	}
	w.send("update", o, http.MethodPut, w.urlOf(o, path.Join(subresource...), ""), "application/json", w.encode(o))
}

// Patch patches an object, and replaces o by the API's answer.
func (w *World) Patch(o Object, kind types.PatchType, patch string, subresource ...string) {
	w.prepare(o)
	w.send("patch", o, http.MethodPatch, w.urlOf(o, path.Join(subresource...), ""), string(kind), []byte(patch))
}

// Delete deletes an object by its name, with background propagation, as kubectl does. It ignores an
// object that does not exist.
func (w *World) Delete(o Object) {
	w.prepare(o)
	body := []byte(`{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`)
	code, answer, err := w.request(http.MethodDelete, w.urlOf(o, "", ""), "application/json", body)
	if err != nil || code/100 != 2 && code != http.StatusNotFound {
		w.fatal("delete %s: %s", describe(o), why(code, answer, err))
	}
}

// Get reads an object from the store into o, by its namespace and name. It returns false if the
// object does not exist. It sends no request and records no step.
func (w *World) Get(o Object) bool {
	w.prepare(o)
	w.turn()
	u := w.truth.Get(w.resourceOf(o), o.GetNamespace(), o.GetName())
	if u == nil {
		return false
	}
	data, err := json.Marshal(u.Object)
	if err == nil {
		err = replace(o, data)
	}
	if err != nil {
		w.fatal("read %s: %v", describe(o), err)
	}
	return true
}

// prepare sets the apiVersion, kind and namespace of an object where they are empty.
func (w *World) prepare(o Object) {
	if o.GetObjectKind().GroupVersionKind().Empty() {
		kinds, _, err := w.config.scheme.ObjectKinds(o)
		if err != nil {
			w.fatal("%T: its kind is neither set nor in the scheme; set apiVersion and kind, or pass simtest.Scheme: %v", o, err)
		}
		o.GetObjectKind().SetGroupVersionKind(kinds[0])
	}
	if o.GetNamespace() == "" && w.mapping(o).Scope.Name() == meta.RESTScopeNameNamespace {
		o.SetNamespace(metav1.NamespaceDefault)
	}
}

func (w *World) mapping(o Object) *meta.RESTMapping {
	m, err := w.server.mapping(o.GetObjectKind().GroupVersionKind())
	if err != nil {
		w.fatal("%s: the API does not serve this kind; install its CRD with simtest.CRDs: %v", describe(o), err)
	}
	return m
}

func (w *World) resourceOf(o Object) string { return resourceName(w.mapping(o).Resource) }

func resourceName(r schema.GroupVersionResource) string { return r.GroupResource().String() }

func (w *World) urlOf(o Object, subresource, query string) string {
	r := w.mapping(o).Resource
	p := []string{"apis", r.Group, r.Version}
	if r.Group == "" {
		p = []string{"api", r.Version}
	}
	if o.GetNamespace() != "" {
		p = append(p, "namespaces", o.GetNamespace())
	}
	p = append(p, r.Resource, o.GetName(), subresource)
	u := url.URL{Scheme: "http", Host: "rehearse.invalid", Path: "/" + path.Join(p...), RawQuery: query}
	if o.GetName() == "" {
		u.Path += "/"
	}
	return u.String()
}

// encode returns the object as a manifest. It omits the fields that only the API sets: their zero
// values in Go types would otherwise be sent as the user's values.
func (w *World) encode(o Object) []byte {
	managed, created := o.GetManagedFields(), o.GetCreationTimestamp()
	o.SetManagedFields(nil)
	o.SetCreationTimestamp(metav1.Time{})
	data, err := json.Marshal(o)
	o.SetManagedFields(managed)
	o.SetCreationTimestamp(created)
	if err == nil {
		data, err = withoutEmptyStatus(bytes.TrimSpace(data))
	}
	if err != nil {
		w.fatal("%s: %v", describe(o), err)
	}
	return data
}

// withoutEmptyStatus removes the field status of an object if it is {}. Go types have it as the last field.
func withoutEmptyStatus(object []byte) ([]byte, error) {
	if rest, last := bytes.CutSuffix(object, []byte(`,"status":{}}`)); last {
		return append(rest, '}'), nil
	}
	if !bytes.Contains(object, []byte(`"status":{}`)) {
		return object, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		return nil, err
	}
	if string(fields["status"]) == "{}" {
		delete(fields, "status")
	}
	return json.Marshal(fields)
}

// send sends a write of the test function and replaces o by the answer.
func (w *World) send(verb string, o Object, method, url, contentType string, body []byte) {
	code, answer, err := w.request(method, url, contentType, body)
	if err != nil || code/100 != 2 {
		w.fatal("%s %s: %s", verb, describe(o), why(code, answer, err))
	}
	if err := replace(o, answer); err != nil {
		w.fatal("%s %s: read the answer: %v", verb, describe(o), err)
	}
}

func (w *World) request(method, url, contentType string, body []byte) (int, []byte, error) {
	r, err := http.NewRequestWithContext(w.ctx, method, url, strings.NewReader(string(body)))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Accept", "application/json")
	resp, err := w.user.RoundTrip(r)
	if err != nil {
		if w.ctx.Err() != nil {
			err = context.Canceled
		}
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// replace makes o what data says, without anything that it held before.
func replace(o Object, data []byte) error {
	if err := kruntime.SetZeroValue(o); err != nil {
		return err
	}
	return json.Unmarshal(data, o)
}

func why(code int, answer []byte, err error) string {
	if err != nil {
		return err.Error()
	}
	var status metav1.Status
	if json.Unmarshal(answer, &status) == nil && status.Message != "" {
		return fmt.Sprintf("%d: %s", code, status.Message)
	}
	return fmt.Sprintf("%d: %s", code, answer)
}

func describe(o Object) string {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = fmt.Sprintf("%T", o)
	}
	return kind + " " + history.Object{Namespace: o.GetNamespace(), Name: o.GetName()}.Key()
}
