package rehearsal

import (
	"cmp"
	"context"
	"path"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/inject"
	"github.com/rehearse-k8s/rehearse/internal/proxy"
)

// The effects of faults that the proxy cannot produce. The proxy calls these functions from the goroutines of
// requests.

// crash kills a client's process and starts another one.
func (r *run) crash(actor string, f fault.Fault) {
	c := r.client(actor)
	if c == nil || !c.crash() {
		return
	}
	again := func() { c.restart(f.String(), "restarted") }
	if f.For == 0 && f.Writes == 0 {
		r.watchers.Go(again)
		return
	}
	r.afterFault(f, again)
}

// overlap starts a second instance of a client. The first one is killed when the time of the fault is over.
func (r *run) overlap(actor string, f fault.Fault) {
	first, next := r.secondInstance(actor, f)
	if next == nil {
		return
	}
	r.afterFault(f, func() {
		r.record.Add(history.Step{Kind: history.Crash, Actor: actor, Fault: f.String(), Note: "the old instance exits"})
		first.stop()
	})
	next.restart(f.String(), "a second instance starts")
}

// depose kills a client's process, whose request is on its way, and starts a second instance.
func (r *run) depose(f fault.Fault, crash history.Step) bool {
	first, next := r.secondInstance(crash.Actor, f)
	if next == nil {
		return false
	}
	r.record.Add(crash)
	first.stop()
	next.restart(f.String(), "its successor starts")
	return true
}

// secondInstance returns a client and its second instance, which has not started; nil if the client is unknown
// or has a second instance already.
func (r *run) secondInstance(actor string, f fault.Fault) (first, second *client) {
	first = r.client(actor)
	if first == nil || r.client(actor+"+") != nil {
		return first, nil
	}
	second, err := r.newClient(first.spec, actor+"+", first.output)
	if err != nil {
		r.record.Add(history.Step{Kind: history.Crash, Actor: actor + "+", Fault: f.String(), Note: "a second instance could not start: " + err.Error()})
		return first, nil
	}
	if !r.addClient(second) {
		return first, nil
	}
	return first, second
}

// interfere changes an object as another user, and reports whether it sent a request. It sends none for an
// object that does not belong to the run.
func (r *run) interfere(f fault.Fault, o history.Object) bool {
	if other, ok := f.TargetObject(); ok {
		o = other
	}
	to, err := r.otherUsersObject(o)
	if err != nil {
		return false
	}
	if excluded := r.world.excluded; excluded != nil && excluded(keyOf(to.resource.GroupResource(), o.Namespace, o.Name)) {
		return false
	}
	ctx := proxy.Because(r.ctx, f.String())
	current, err := to.get(ctx)
	if err != nil {
		return false
	}
	q, ok := inject.NewInterference(f.Kind, o.Resource, current, o.UID)
	if !ok {
		return false
	}
	o.UID = string(current.GetUID())
	if owns := r.world.owns; owns != nil && !owns(r.ctx, o) {
		return false
	}
	switch f.Kind {
	case fault.KindFinalizer:
		r.addFinalizer(ctx, f, to, current, q)
		return true
	case fault.KindEdit:
		return to.send(ctx, q) == nil && to.send(ctx, inject.RevertEdit(current)) == nil
	case fault.KindDelete, fault.KindRecreate:
		return r.delete(ctx, f, to, o, current, q)
	}
	return to.send(ctx, q) == nil
}

// addFinalizer adds the interference finalizer to an object for the time of a fault. In every case, the end
// of the run removes it.
func (r *run) addFinalizer(ctx context.Context, f fault.Fault, to target, current *unstructured.Unstructured, q inject.Interference) {
	remove := func(ctx context.Context) { _ = to.send(ctx, inject.RemoveFinalizer(current)) }
	// A request without an answer may have been carried out.
	r.mu.Lock()
	r.finalized = append(r.finalized, remove)
	r.mu.Unlock()
	if to.send(ctx, q) == nil {
		r.afterFault(f, func() { remove(ctx) })
	}
}

// removeFinalizers removes the interference finalizer from every object to which a fault has added it.
func (r *run) removeFinalizers() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), r.harness.timeouts.restore)
	defer cancel()
	for _, remove := range r.finalized {
		remove(ctx) // the restore that follows reports what remains
	}
}

// target is an object that another user changes.
type target struct {
	client    rest.Interface
	resource  schema.GroupVersionResource
	namespace string // "" for an object without one
	name      string
}

// otherUsersObject returns the object as a target of requests of the other user.
func (r *run) otherUsersObject(o history.Object) (target, error) {
	resource, namespaced, err := r.served(o.Resource)
	t := target{client: r.otherUser, resource: resource, name: o.Name}
	if namespaced {
		t.namespace = cmp.Or(o.Namespace, metav1.NamespaceDefault)
	}
	return t, err
}

// path returns the path of the object in the API.
func (t target) path(subresource string) string {
	parts := []string{"/apis", t.resource.Group, t.resource.Version}
	if t.resource.Group == "" {
		parts = []string{"/api", t.resource.Version}
	}
	if t.namespace != "" {
		parts = append(parts, "namespaces", t.namespace)
	}
	return path.Join(append(parts, t.resource.Resource, t.name, subresource)...)
}

func (t target) get(ctx context.Context) (*unstructured.Unstructured, error) {
	body, err := t.client.Get().AbsPath(t.path("")).SetHeader("Accept", "application/json").Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	o := &unstructured.Unstructured{}
	return o, o.UnmarshalJSON(body)
}

// send sends the request of an interference. An eviction that a PodDisruptionBudget rejects is not repeated; client-go
// repeats other requests that an overloaded server rejects.
func (t target) send(ctx context.Context, q inject.Interference) error {
	to := t.client.Verb(q.Method).AbsPath(t.path(q.Subresource)).SetHeader("Content-Type", q.ContentType).SetHeader("Accept", "application/json")
	if q.Subresource == "eviction" {
		to.MaxRetries(0)
	}
	if q.FieldManager != "" {
		to.Param("fieldManager", q.FieldManager)
	}
	return to.Body(q.Body).Do(ctx).Error()
}

// newOtherUser returns a client that sends requests as they are.
func newOtherUser(config *rest.Config) (rest.Interface, error) {
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	return rest.UnversionedRESTClientFor(config)
}

// uidPrecondition returns the precondition that an object has a UID, or nil if the UID is not known.
func uidPrecondition(uid types.UID) *metav1.Preconditions {
	if uid == "" {
		return nil
	}
	return &metav1.Preconditions{UID: &uid}
}
