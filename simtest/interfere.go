package simtest

import (
	"net/http"
	"net/url"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/inject"
	"github.com/rehearse-k8s/rehearse/internal/wire"
)

// interfere sends a request of another user about an object that a controller has just written. The
// schedule orders it like any other request.
func (w *World) interfere(f fault.Fault, o history.Object, requested string) {
	target := objectURL(requested, o.Name)
	current := w.current(o, target)
	q, ok := inject.NewInterference(f.Kind, o.Resource, current, o.UID)
	if !ok {
		return
	}
	w.park(w.interference(f, target, q))
	if f.Kind == fault.KindFinalizer {
		w.schedule(w.newHold(f), len(w.record.Steps), func() { w.park(w.interference(f, target, inject.RemoveFinalizer(current))) })
	}
}

// contend writes an object as another user, right before the request p of a controller is served: neither
// events nor other requests come in between, so the API answers p with a conflict.
func (w *World) contend(p *parked, d inject.Decision) {
	p.hits = d.Rest
	w.requests = append(w.requests, p)
	target := objectURL(p.url, p.call.Name)
	q, ok := inject.NewInterference(d.Fault.Kind, p.call.Resource, w.current(p.call.Object, target), "")
	if !ok {
		return
	}
	first := &parked{request: w.interference(d.Fault, target, q), age: contends, cause: w.otherUser.last}
	first.order = first.request.order()
	p.age, p.delayedBy = contended, d.Fault.String()
	w.requests = append(w.requests, first)
}

// The ages of two requests that precede everything else in the queue, in this order.
const (
	contends  = -2
	contended = -1
)

// current returns the object that the API stores now, with the version of a URL; nil if it does not exist.
func (w *World) current(o history.Object, target string) *unstructured.Unstructured {
	u := w.truth.Get(o.Resource, o.Namespace, o.Name)
	if u == nil {
		return nil
	}
	u = u.DeepCopy()
	u.SetAPIVersion(versionIn(target))
	return u
}

// interference returns a request of the other user about the object with a URL.
func (w *World) interference(f fault.Fault, target string, q inject.Interference) *request {
	if q.Subresource != "" {
		target += "/" + q.Subresource
	}
	if q.FieldManager != "" {
		target += "?" + url.Values{"fieldManager": {q.FieldManager}}.Encode()
	}
	w.otherUser.last = len(w.record.Steps) - 1
	r := &request{
		from: w.otherUser, method: q.Method, url: target, body: q.Body, because: f.String(),
		header: http.Header{"Content-Type": {q.ContentType}, "Accept": {"application/json"}},
	}
	if u, err := url.Parse(target); err == nil { // it was parsed before
		r.call = wire.DescribeCall(r.method, u, r.header, r.body)
	}
	return r
}

// versionIn returns the group and version of the URL of an object, as in an object's apiVersion.
func versionIn(target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return ""
	}
	parts := strings.Split(strings.TrimPrefix(u.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "apis":
		return parts[1] + "/" + parts[2]
	case len(parts) > 1 && parts[0] == "api":
		return parts[1]
	}
	return ""
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
