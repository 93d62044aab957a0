package simtest

import (
	"net/http"
	"net/url"
	"path"
	"strconv"
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
	if other, ok := f.TargetObject(); ok {
		o = other
		target = w.urlOfObject(o, "")
	}
	current := w.current(o, target)
	// A claim that no pod uses can be deleted: upstream's controller removes its protection then.
	var unprotect *request
	if f.Kind == fault.KindDelete && o.Resource == "persistentvolumeclaims" && current != nil && !w.isMounted(o) {
		if q, ok := inject.Unprotect(current); ok {
			unprotect = w.interference(f.String(), target, q)
			current.SetFinalizers(nil)
		}
	}
	q, ok := inject.NewInterference(f.Kind, o.Resource, current, o.UID)
	if !ok || target == "" {
		return
	}
	r := w.interference(f.String(), target, q)
	switch f.Kind {
	case fault.KindEdit:
		// Neither events nor other requests come between the two edits.
		w.follow(r, w.interference(f.String(), target, inject.RevertEdit(current)))
		return
	case fault.KindDelete, fault.KindRecreate:
		r.deletes = &deletion{fault: f, object: o, uid: string(current.GetUID())}
	}
	if unprotect != nil {
		w.follow(r, unprotect)
		return
	}
	w.park(r)
	if f.Kind == fault.KindFinalizer {
		w.schedule(otherUserName, w.newHold(f), len(w.record.Steps), func() { w.park(w.interference(f.String(), target, inject.RemoveFinalizer(current))) })
	}
}

// isMounted reports whether a pod uses a claim. Then its protection stays, and it is not deleted.
func (w *World) isMounted(claim history.Object) (mounted bool) {
	w.truth.Each(func(o history.Object, content map[string]any) {
		if o.Resource != "pods" || o.Namespace != claim.Namespace {
			return
		}
		volumes, _, _ := unstructured.NestedSlice(content, "spec", "volumes")
		for _, v := range volumes {
			volume, _ := v.(map[string]any)
			name, _, _ := unstructured.NestedString(volume, "persistentVolumeClaim", "claimName")
			mounted = mounted || name == claim.Name
		}
	})
	return mounted
}

// follow adds requests to the queue, of which each comes right after the one before. They precede everything else, also in a
// run with a schedule: two edits that interleave would not end where they began.
func (w *World) follow(requests ...*request) {
	for n, r := range requests {
		p := &parked{request: r, age: follows, cause: r.from.last}
		p.order, p.chain = requests[0].order()+"\x00"+strconv.Itoa(n), otherUserName
		w.requests = append(w.requests, p)
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
	first := &parked{request: w.interference(d.Fault.String(), target, q), age: contends, cause: w.otherUser.last}
	first.order, first.chain = first.request.order(), otherUserName
	p.age, p.delayedBy = contended, d.Fault.String()
	w.requests = append(w.requests, first)
}

// The ages of requests that precede everything else in the queue, in this order.
const (
	follows   = -4
	recreates = -3
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

// interference returns a request of the other user about the object with a URL, because of a fault.
func (w *World) interference(because, target string, q inject.Interference) *request {
	if q.Subresource != "" {
		target += "/" + q.Subresource
	}
	if q.FieldManager != "" {
		target += "?" + url.Values{"fieldManager": {q.FieldManager}}.Encode()
	}
	w.otherUser.last = len(w.record.Steps) - 1
	r := &request{
		from: w.otherUser, method: q.Method, url: target, body: q.Body, because: because,
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
