package simtest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/wire"
)

// interfere sends a request of another user about an object that a controller has just written. The
// schedule orders it like any other request.
func (w *World) interfere(f fault.Fault, o history.Object, requested string) {
	target := objectURL(requested, o.Name)
	if w.finished(o) && (f.Kind == fault.KindDelete || f.Kind == fault.KindEvict) {
		return // the controller would not create such a pod again
	}
	switch f.Kind {
	case fault.KindDelete:
		w.ask(f, http.MethodDelete, target, "application/json", `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`)
	case fault.KindEvict:
		if o.Resource != "pods" {
			return
		}
		w.ask(f, http.MethodPost, target+"/eviction", "application/json",
			`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"`+o.Name+`","namespace":"`+o.Namespace+`"}}`)
	case fault.KindLabel:
		w.ask(f, http.MethodPatch, target, string(types.MergePatchType), `{"metadata":{"labels":{"rehearse-k8s.github.io/touched":"yes"}}}`)
	case fault.KindFinalizer:
		w.setFinalizer(f, o, target, true)
		w.schedule(w.newHold(f), len(w.record.Steps), func() { w.setFinalizer(f, o, target, false) })
	}
}

// finished reports whether an object is a pod in a final phase.
func (w *World) finished(o history.Object) bool {
	if o.Resource != "pods" {
		return false
	}
	pod := w.truth.Get(o.Resource, o.Namespace, o.Name)
	if pod == nil {
		return false
	}
	phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
	return phase == "Succeeded" || phase == "Failed"
}

// setFinalizer adds or removes the fault's finalizer, and keeps the others.
func (w *World) setFinalizer(f fault.Fault, o history.Object, target string, there bool) {
	u := w.truth.Get(o.Resource, o.Namespace, o.Name)
	if u == nil {
		return
	}
	finalizers := []string{}
	for _, have := range u.GetFinalizers() {
		if have != fault.InterferenceFinalizer {
			finalizers = append(finalizers, have)
		}
	}
	if there {
		finalizers = append(finalizers, fault.InterferenceFinalizer)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
	if err != nil {
		w.fail("interference can be encoded", err.Error())
		return
	}
	w.ask(f, http.MethodPatch, target, string(types.MergePatchType), string(patch))
}

// ask parks a request of the other user.
func (w *World) ask(f fault.Fault, method, target, contentType, body string) {
	u, err := url.Parse(target)
	if err != nil {
		w.fail("interference can be encoded", err.Error())
		return
	}
	header := http.Header{"Content-Type": {contentType}, "Accept": {"application/json"}}
	q := &request{from: w.otherUser, method: method, url: target, header: header, body: []byte(body)}
	q.call = wire.DescribeCall(method, u, header, q.body)
	w.otherUser.last = len(w.record.Steps) - 1
	q.because = f.String()
	w.park(q)
}

// objectURL returns the URL of an object, derived from the URL of a request about it.
func objectURL(requested, name string) string {
	u, err := url.Parse(requested)
	if err != nil {
		return requested
	}
	u.RawQuery = ""
	if i := strings.Index(u.Path+"/", "/"+name+"/"); i >= 0 {
		u.Path = u.Path[:i] + "/" + name
	} else {
		u.Path = path.Join(u.Path, name)
	}
	return u.String()
}
