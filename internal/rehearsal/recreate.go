package rehearsal

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/inject"
	"github.com/rehearse-k8s/rehearse/internal/proxy"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// delete deletes an object as another user, and creates it again once it is gone if the fault says so. It reports whether
// the API accepted the deletion.
func (r *run) delete(ctx context.Context, f fault.Fault, to target, o history.Object, current *unstructured.Unstructured, q inject.Interference) bool {
	o = keyed(o)
	if f.Kind == fault.KindRecreate {
		r.mu.Lock()
		r.recreating[o] = true
		r.mu.Unlock()
	}
	if !hasGarbageCollector(r.harness.o) {
		r.monitor.mu.Lock()
		r.monitor.deleted(string(current.GetUID()), f)
		r.monitor.mu.Unlock()
	}
	err := to.send(ctx, q)
	if f.Kind != fault.KindRecreate {
		return err == nil
	}
	if err != nil || !r.createAgain(ctx, to, o, current) {
		if err == nil { // its finalizers are not removed yet
			r.watchers.Go(func() { r.awaitGone(ctx, to, o, current) })
			return true
		}
	}
	r.endRecreation(o)
	return err == nil
}

// endRecreation records that an object exists again, or that the user does not want it any more.
func (r *run) endRecreation(o history.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.recreating, o)
	r.recreated[o] = true
}

// createAgain creates an object that a fault has deleted, with the content that the user wrote. It reports whether there is
// nothing more to do: the object is created, or the user does not want it any more.
func (r *run) createAgain(ctx context.Context, to target, o history.Object, old *unstructured.Unstructured) bool {
	now, err := to.get(ctx)
	switch {
	case err == nil && now.GetUID() == old.GetUID():
		return false
	case err == nil: // the user has created it again
		return true
	case !apierrors.IsNotFound(err):
		return ctx.Err() != nil
	}
	r.mu.Lock()
	created, unwanted := r.created[o], r.userDeleted[o]
	r.mu.Unlock()
	if unwanted {
		return true
	}
	r.awaitWritesOfUser(o)
	edits := r.editsByUser(o)
	q := inject.Recreation(created, edits, old)
	content := &unstructured.Unstructured{}
	if content.UnmarshalJSON(q.Body) != nil {
		return true
	}
	collection := to
	collection.name = ""
	collection.resource.Version = content.GroupVersionKind().Version
	if err := collection.send(ctx, q); err == nil && len(edits) > 0 { // a rejected create is in the record
		_ = to.send(ctx, inject.Again())
	}
	return true
}

// awaitGone creates an object again when its finalizers have been removed. For a time, the run counts as holding something
// meanwhile: a client that never removes its finalizer must not prolong the run without end.
func (r *run) awaitGone(ctx context.Context, to target, o history.Object, old *unstructured.Unstructured) {
	r.mu.Lock()
	r.pendingActions++
	r.mu.Unlock()
	pending := true
	release := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if pending {
			pending = false
			r.pendingActions--
			if r.recreating[o] {
				r.recreating[o] = false
			}
		}
	}
	defer func() {
		release()
		r.endRecreation(o)
	}()
	limit := time.NewTimer(r.harness.timeouts.recreate)
	defer limit.Stop()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for !r.createAgain(ctx, to, o, old) {
		select {
		case <-tick.C:
		case <-limit.C:
			release()
		case <-r.ctx.Done():
			return
		}
	}
}

// awaitWritesOfUser waits until the writes of the user to an object that are on their way have been answered: a client may
// observe the event of a write, and so cause the fault, before the answer that names its author.
func (r *run) awaitWritesOfUser(o history.Object) {
	r.awaitNo(func() bool { return userWrites(r.record.Record().Steps, o) })
}

// userWrites reports whether a write of the user to an object is on its way.
func userWrites(steps []history.Step, o history.Object) bool {
	return slices.ContainsFunc(steps, func(s history.Step) bool {
		return s.Kind == history.Request && s.Actor == history.User && s.IsWrite() && s.Code == 0 && keyed(s.Object) == o
	})
}

// editsByUser returns the writes of the user to an object after it was created.
func (r *run) editsByUser(o history.Object) (edits []inject.Edit) {
	j := r.monitor
	j.mu.Lock()
	defer j.mu.Unlock()
	j.takeWrites(r.elapsed())
	record := r.record.Record()
	steps := attributeChanges(record, j.changes, j.objects.Objects)
	for i, c := range j.changes {
		if steps[i] < 0 || record.Steps[steps[i]].Actor != "user" || keyed(j.objects.ObjectOf(c)) != o {
			continue
		}
		switch before, after := j.objects.BeforeAndAfter(c); {
		case before == nil:
			edits = nil
		case after != nil:
			edits = append(edits, inject.Edit{Before: before, After: after})
		}
	}
	return edits
}

// noteCreated records the manifest of an object that the user creates or applies, until forget is called.
func (r *run) noteCreated(u *unstructured.Unstructured) (forget func()) {
	kind := u.GroupVersionKind()
	m, err := r.harness.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return func() {}
	}
	body, err := json.Marshal(u.Object)
	if err != nil {
		return func() {}
	}
	o := objectIn(m.Resource, m.Scope.Name() == meta.RESTScopeNameNamespace, u.GetNamespace(), u.GetName())
	r.mu.Lock()
	defer r.mu.Unlock()
	before, deleted := r.created[o], r.userDeleted[o]
	if before == nil || deleted { // a later apply is an edit
		r.created[o] = body
	}
	delete(r.userDeleted, o)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.created[o], r.userDeleted[o] = before, deleted
	}
}

// noteDeleted records that the user deletes an object: it is not created again.
func (r *run) noteDeleted(on v1alpha1.Reference, name string) {
	resource, namespaced, err := r.served(on.Resource)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.userDeleted[objectIn(resource, namespaced, on.Namespace, name)] = true
}

// objectIn names an object. A namespaced object without a namespace belongs to default.
func objectIn(resource schema.GroupVersionResource, namespaced bool, namespace, name string) history.Object {
	if namespaced {
		namespace = cmp.Or(namespace, metav1.NamespaceDefault)
	}
	return history.Object{Resource: resource.GroupResource().String(), Namespace: namespace, Name: name}
}

// keyed returns the object without its UID.
func keyed(o history.Object) history.Object {
	o.UID = ""
	return o
}

// awaitRecreated waits until the objects that faults have deleted exist again: the user does not meet a time without
// them. If a client keeps its finalizer, the user continues.
func (r *run) awaitRecreated() {
	r.awaitNo(func() bool {
		for _, waits := range r.recreating {
			if waits {
				return true
			}
		}
		return false
	})
}

// awaitAgain waits until an object that did not exist, because a fault has deleted it, is created again. It reports whether
// there is, or was, such a fault.
func (r *run) awaitAgain(on v1alpha1.Reference, name string) bool {
	resource, namespaced, err := r.served(on.Resource)
	if err != nil {
		return false
	}
	o := objectIn(resource, namespaced, on.Namespace, name)
	found := false
	r.awaitNo(func() bool {
		_, pending := r.recreating[o]
		found = found || pending || r.recreated[o]
		return pending
	})
	return found
}

// awaitNo waits until a condition does not hold, or the run is over. It calls the function with the lock held.
func (r *run) awaitNo(holds func() bool) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		r.mu.Lock()
		held := holds()
		r.mu.Unlock()
		if !held {
			return
		}
		select {
		case <-tick.C:
		case <-r.monitor.decided:
			return
		case <-r.ctx.Done():
			return
		}
	}
}

// hasGarbageCollector reports whether dependents of deleted objects are deleted without the harness.
func hasGarbageCollector(o Options) bool {
	if o.Target != nil {
		return true
	}
	if o.NewControllers == nil {
		return false
	}
	for _, name := range o.Scenario.Controllers {
		switch name {
		case "garbage-collector-controller", "garbagecollector", "*":
			return true
		case "-garbage-collector-controller", "-garbagecollector":
			return false
		}
	}
	return false
}

// deleted records that a fault deletes the object with a UID. The caller holds the lock.
func (j *monitor) deleted(uid string, f fault.Fault) {
	j.collection.Deleted(uid, f.String())
	if j.owners == nil {
		j.owners = map[string]bool{}
	}
	j.owners[uid] = true
}

// collect deletes the dependents of objects that faults have deleted, in a run without a garbage collector. The caller
// holds the lock.
func (j *monitor) collect(changes []verdict.Change) {
	if j.collection.Empty() {
		return
	}
	for _, c := range changes {
		before, after := j.objects.BeforeAndAfter(c)
		if !c.Deleted() {
			j.collectDependent(j.objects.ObjectOf(c), after)
			continue
		}
		uid, _, _ := unstructured.NestedString(before, "metadata", "uid")
		if j.collection.Gone(uid) {
			if j.owners[uid] {
				j.collectUntil = j.run.elapsed() + j.run.harness.timeouts.recreate
			}
			j.objects.Each(j.collectDependent)
		}
	}
}

// collectDependent has an object deleted after timeouts.collect if all its owners are gone because of faults. It leaves what the
// user has created. For a time after an owner is gone, the run counts as holding something meanwhile: a client that creates
// dependents of it again and again must not prolong the run without end. The caller holds the lock.
func (j *monitor) collectDependent(o history.Object, content map[string]any) {
	if j.run.ctx.Err() != nil || j.run.isOfUser(o) {
		return
	}
	to, err := j.run.otherUsersObject(o)
	if err != nil || !j.collection.Schedule(o.UID, content) {
		return
	}
	to.resource.Version = versionOf(content, to.resource)
	late := j.run.elapsed() >= j.collectUntil
	done := func() {}
	if !late {
		done = j.run.beginAction()
	}
	j.run.watchers.Go(func() {
		defer done()
		t := time.NewTimer(j.run.harness.timeouts.collect)
		defer t.Stop()
		select {
		case <-t.C:
			j.collectNow(o, to, late)
		case <-j.run.ctx.Done():
		}
	})
}

// collectNow deletes an object if all its owners are still gone. late: the deletion does not prolong the run.
func (j *monitor) collectNow(o history.Object, to target, late bool) {
	current, err := to.get(j.run.ctx)
	if err != nil {
		current = nil
	}
	j.mu.Lock()
	because, ok := j.collection.Due(o.UID, current)
	if ok {
		j.collection.Deleted(o.UID, because)
	}
	j.mu.Unlock()
	if !ok {
		return
	}
	ctx := proxy.Because(j.run.ctx, because)
	if late {
		ctx = proxy.LongAfter(j.run.ctx, because)
	}
	for _, q := range inject.Collect(current) {
		if to.send(ctx, q) != nil {
			return
		}
	}
}

// isOfUser reports whether the user has created an object.
func (r *run) isOfUser(o history.Object) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.created[keyed(o)] != nil
}

// beginAction counts an action that a fault has delayed, until done is called: the run counts as holding something.
func (r *run) beginAction() (done func()) {
	r.mu.Lock()
	r.pendingActions++
	r.mu.Unlock()
	return func() {
		r.mu.Lock()
		r.pendingActions--
		r.mu.Unlock()
	}
}

// versionOf returns the version of an object, or the preferred one of its resource if its group is another one.
func versionOf(content map[string]any, resource schema.GroupVersionResource) string {
	apiVersion, _ := content["apiVersion"].(string)
	group, version, grouped := strings.Cut(apiVersion, "/")
	if !grouped {
		group, version = "", apiVersion
	}
	if group != resource.Group || version == "" {
		return resource.Version
	}
	return version
}
