package simtest

import (
	"net/url"
	"path"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/inject"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// deletion is what a request of another user deletes because of a fault.
type deletion struct {
	fault  fault.Fault
	object history.Object
	uid    string
}

// collects holds the collection of a dependent after the end of its owner. The collector of a cluster needs a while, too.
// Without it, a controller that does not know the end of the owner yet would create its dependents again and again in no
// time.
var collects = fault.Fault{Kind: fault.KindDelete, For: time.Second}

// userWrite is a write of the user. The contents are read only if a fault needs them.
type userWrite struct {
	verdict.Change
	created []byte // the body, if it created the object
}

// followDeletions is called after each request, with the writes that it caused. It creates the objects again that a
// recreate fault has deleted, and collects the dependents of the objects that faults have deleted.
func (w *World) followDeletions(p *parked, code int, changes []verdict.Change) {
	if p.from == w.user {
		w.noteUserWrites(p, changes)
	}
	if d := p.deletes; d != nil && code/100 == 2 {
		w.collection.Deleted(d.uid, p.because)
		if d.fault.Kind == fault.KindRecreate {
			w.recreating = append(w.recreating, d)
		}
	}
	if w.collection.Empty() {
		return
	}
	for _, c := range changes {
		before, after := w.truth.BeforeAndAfter(c)
		if !c.Deleted() {
			w.collectLater(w.truth.ObjectOf(c), after)
			continue
		}
		gone := unstructured.Unstructured{Object: before}
		if w.collection.Gone(string(gone.GetUID())) {
			w.recreate(&gone)
			w.truth.Each(w.collectLater)
		}
	}
}

// noteUserWrites records what the user has written. An object that the user deletes is not created again.
func (w *World) noteUserWrites(p *parked, changes []verdict.Change) {
	for _, c := range changes {
		write := userWrite{Change: c}
		if c.Before == 0 {
			write.created = p.body
		}
		w.userWrites = append(w.userWrites, write)
	}
	if p.call.Verb == "delete" {
		w.recreating = slices.DeleteFunc(w.recreating, func(d *deletion) bool {
			return d.object.Resource == p.call.Resource && d.object.Key() == p.call.Key()
		})
	}
}

// isOfUser reports whether the user has created an object. It is not collected with its owner: no controller would create it
// again.
func (w *World) isOfUser(o history.Object) bool {
	return slices.ContainsFunc(w.userWrites, func(write userWrite) bool {
		return write.Before == 0 && w.truth.ObjectOf(write.Change).UID == o.UID
	})
}

// recreate creates an object again if a recreate fault has deleted it. The request precedes everything else: the user does
// not meet a time without the object, except while it waits for its finalizers.
func (w *World) recreate(gone *unstructured.Unstructured) {
	n := slices.IndexFunc(w.recreating, func(d *deletion) bool { return d.uid == string(gone.GetUID()) })
	if n < 0 {
		return
	}
	d := w.recreating[n]
	w.recreating = slices.Delete(w.recreating, n, n+1)
	created, edits := w.writtenByUser(d.object)
	q := inject.Recreation(created, edits, gone)
	content := unstructured.Unstructured{}
	if content.UnmarshalJSON(q.Body) != nil {
		return // the API server has stored an object without a kind
	}
	target := w.urlOfObject(history.Object{Resource: d.object.Resource, Namespace: d.object.Namespace}, content.GetAPIVersion())
	requests := []*request{w.interference(d.fault.String(), target, q)}
	if len(edits) > 0 {
		requests = append(requests, w.interference(d.fault.String(), w.urlOfObject(d.object, content.GetAPIVersion()), inject.Again()))
	}
	for n, r := range requests {
		w.requests = append(w.requests, &parked{
			request: r, age: recreates, cause: len(w.record.Steps), chain: otherUserName, order: requests[0].order() + "\x00" + strconv.Itoa(n),
		})
	}
}

// isRecreating reports whether an object that a recreate fault has deleted does not exist again yet.
func (w *World) isRecreating() bool {
	return len(w.recreating) > 0 || slices.ContainsFunc(w.requests, func(p *parked) bool { return p.age == recreates })
}

// writtenByUser returns the body by which the user created an object, and the user's later writes to it.
func (w *World) writtenByUser(o history.Object) (created []byte, edits []inject.Edit) {
	for _, write := range w.userWrites {
		if name := w.truth.ObjectOf(write.Change); name.Resource != o.Resource || name.Key() != o.Key() {
			continue
		}
		if write.Before == 0 {
			created, edits = write.created, nil
			continue
		}
		if before, after := w.truth.BeforeAndAfter(write.Change); after != nil {
			edits = append(edits, inject.Edit{Before: before, After: after})
		}
	}
	return created, edits
}

// collectLater has an object collected after a while if all its owners are gone because of faults.
func (w *World) collectLater(o history.Object, content map[string]any) {
	if w.isOfUser(o) || !w.collection.Schedule(o.UID, content) {
		return
	}
	w.schedule(otherUserName, w.newHold(collects), len(w.record.Steps), func() { w.collectDependent(o) })
}

// collectDependent deletes an object if all its owners are still gone: a controller may have adopted it meanwhile.
func (w *World) collectDependent(o history.Object) {
	target := w.urlOfObject(o, "")
	if target == "" {
		return
	}
	current := w.current(o, target)
	because, ok := w.collection.Due(o.UID, current)
	if !ok {
		return
	}
	var requests []*request
	for _, q := range inject.Collect(current) {
		requests = append(requests, w.interference(because, target, q))
	}
	requests[0].deletes = &deletion{object: o, uid: o.UID}
	w.follow(requests...)
}

// urlOfObject returns the URL of an object, or of its collection if it has no name, in a group and version or in the
// preferred one; "" if the API does not serve its resource.
func (w *World) urlOfObject(o history.Object, apiVersion string) string {
	resource, err := w.server.restMapper().ResourceFor(schema.ParseGroupResource(o.Resource).WithVersion(""))
	if err != nil {
		return ""
	}
	if gv, err := schema.ParseGroupVersion(apiVersion); err == nil && apiVersion != "" {
		resource = gv.WithResource(resource.Resource)
	}
	parts := []string{"/apis", resource.Group, resource.Version}
	if resource.Group == "" {
		parts = []string{"/api", resource.Version}
	}
	if o.Namespace != "" {
		parts = append(parts, "namespaces", o.Namespace)
	}
	u := url.URL{Scheme: "http", Host: "rehearse.invalid", Path: path.Join(append(parts, resource.Resource, o.Name)...)}
	return u.String()
}

// isTarget reports whether a fault of the run changes an object.
func (w *World) isTarget(o Object) bool {
	target := fault.TargetOf(history.Object{Resource: w.resourceOf(o), Namespace: o.GetNamespace(), Name: o.GetName()})
	return slices.ContainsFunc(w.plan.Faults, func(f fault.Fault) bool { return f.Target == target })
}
