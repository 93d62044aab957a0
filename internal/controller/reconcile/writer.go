package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// Resource describes a resource that a Writer writes.
type Resource struct {
	// Name is the plural name in the API, as in "pods", and Kind the name in messages, as in "pod".
	Name, Kind string
	Client     rest.Interface
	// New returns an empty object, which an answer is decoded into.
	New func() workload.Object
	// Finalizer is the finalizer that the controller keeps on these objects, if any. The answer to a
	// patch that removes it from a terminating object has no usable revision: if it was the last
	// finalizer, the API deletes the object and returns the revision from before.
	Finalizer string
	// JSON says that the API answers in JSON. Of the answer to a status update only the metadata is
	// then decoded: the rest of a stored custom object may not fit its Go type.
	JSON bool
	// Owner says that objects of this resource own the others. A lost answer to a write of an owner
	// needs no read: the next write names its resourceVersion, and conflicts if this one had effect.
	Owner bool
}

// Writer sends the writes of a controller to the API and records each of them in the Memory of the
// owner, so that the next decision waits until the caches show it. For every write:
//
//   - It is not sent if its decision is older than maxAge (Memory.InTime).
//   - It names the UID that it was decided on and, if the action is Exact, the resourceVersion. If the
//     API has another object or version, the write returns ErrStale, and the next plan decides again.
//   - client-go does not retry it (MaxRetries(0)): a retry would be sent some time after the decision,
//     and no plan would know what state it meets.
//   - If its answer is lost, it is recorded as unsettled, and Settle finds out what happened with a GET.
//
// A Writer decides nothing and emits no Events; the controller does, from what a method returns.
type Writer struct {
	resources []Resource
	byType    map[reflect.Type]*Resource
	count     func(resource, verb string, err error)
}

// NewWriter returns a Writer for these resources. count, if it is not nil, is called for each request
// with its verb ("create", "update", "patch", "delete") and the API's error.
func NewWriter(count func(resource, verb string, err error), resources ...Resource) *Writer {
	w := &Writer{resources: resources, byType: map[reflect.Type]*Resource{}, count: count}
	if w.count == nil {
		w.count = func(string, string, error) {}
	}
	for i := range w.resources {
		w.byType[reflect.TypeOf(w.resources[i].New())] = &w.resources[i]
	}
	return w
}

// Resource returns the resource that an object belongs to. It panics for a type without one.
func (w *Writer) Resource(o workload.Object) *Resource {
	r := w.byType[reflect.TypeOf(o)]
	if r == nil {
		panic(fmt.Sprintf("write %T: it belongs to no resource of this Writer", o))
	}
	return r
}

// WriteError is a write that the API rejected, or whose answer did not arrive.
type WriteError struct {
	Verb, Kind, Name string
	Err              error
}

// Error implements error.
func (e *WriteError) Error() string {
	return fmt.Sprintf("%s %s %s: %s", e.Verb, e.Kind, e.Name, e.Err)
}

// Unwrap returns the error of the request.
func (e *WriteError) Unwrap() error { return e.Err }

// Get reads an object from the API.
func (w *Writer) Get(ctx context.Context, resource, namespace, name string) (workload.Object, error) {
	i := slices.IndexFunc(w.resources, func(r Resource) bool { return r.Name == resource })
	if i < 0 {
		return nil, fmt.Errorf("read %s %s: this controller does not write that resource", resource, name)
	}
	return w.resources[i].get(ctx, namespace, name)
}

func (r *Resource) get(ctx context.Context, namespace, name string) (workload.Object, error) {
	o := r.New()
	return o, r.Client.Get().Namespace(namespace).Resource(r.Name).Name(name).Do(ctx).Into(o)
}

// Settle reads each object whose last write had no answer, and records what the API has.
func (w *Writer) Settle(ctx context.Context, m *Memory, namespace string) error {
	return m.Settle(func(resource, name string) (metav1.Object, error) { return w.Get(ctx, resource, namespace, name) })
}

// Recheck returns ErrStale unless the API has exactly this version of an object.
func (w *Writer) Recheck(ctx context.Context, o workload.Object) error {
	live, err := w.Resource(o).get(ctx, o.GetNamespace(), o.GetName())
	switch {
	case apierrors.IsNotFound(err):
		return ErrStale
	case err != nil:
		return err
	case live.GetUID() != o.GetUID() || live.GetResourceVersion() != o.GetResourceVersion():
		return ErrStale
	}
	return nil
}

// UpdateStatus writes the status of an object. A lost answer need not be settled: the next update
// names the same resourceVersion, and conflicts if this one had effect.
func (w *Writer) UpdateStatus(ctx context.Context, m *Memory, o workload.Object) error {
	if err := m.InTime(time.Now()); err != nil {
		return err
	}
	r := w.Resource(o)
	result := r.Client.Put().MaxRetries(0).Namespace(o.GetNamespace()).Resource(r.Name).Name(o.GetName()).SubResource("status").Body(o).Do(ctx)
	var written metav1.Object
	err := result.Error()
	if r.JSON {
		head := &metav1.PartialObjectMetadata{}
		if body, _ := result.Raw(); err == nil {
			err = json.Unmarshal(body, head)
		}
		written = head
	} else {
		answer := r.New()
		err = result.Into(answer)
		written = answer
	}
	w.count(r.Name, "update", err)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return ErrStale
	case err != nil:
		return fmt.Errorf("update the status of %s %s: %w", r.Kind, o.GetName(), err)
	}
	m.Wrote(r.Name, written.GetResourceVersion())
	return nil
}

// Create creates an object. Its name follows from the decision, so an object that has the name already
// is the one that was to be created, one that the cache does not show yet, or one of another owner:
// isOurs is called with it, and reports which. created is false if the object existed.
func (w *Writer) Create(ctx context.Context, m *Memory, o workload.Object, isOurs func(found workload.Object) (bool, error)) (created bool, err error) {
	if err := m.InTime(time.Now()); err != nil {
		return false, err
	}
	r, answer := w.Resource(o), w.Resource(o).New()
	err = r.Client.Post().MaxRetries(0).Namespace(o.GetNamespace()).Resource(r.Name).Body(o).Do(ctx).Into(answer)
	w.count(r.Name, "create", err)
	switch {
	case err == nil:
		m.Wrote(r.Name, answer.GetResourceVersion())
		return true, nil
	case apierrors.IsAlreadyExists(err):
		return false, w.resolveExisting(ctx, m, o, isOurs)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// No WriteError, hence no Event: the owner is deleted with the namespace, too.
		return false, fmt.Errorf("create %s %s: %w", r.Kind, o.GetName(), err)
	case !Rejected(err):
		m.Unsettled(r.Name, o.GetName(), "")
	}
	return false, &WriteError{"create", r.Kind, o.GetName(), err}
}

// resolveExisting reads the object that has the name of one that was to be created.
func (w *Writer) resolveExisting(ctx context.Context, m *Memory, o workload.Object, isOurs func(workload.Object) (bool, error)) error {
	r := w.Resource(o)
	found, err := r.get(ctx, o.GetNamespace(), o.GetName())
	switch {
	case apierrors.IsNotFound(err):
		return ErrStale
	case err != nil:
		return err
	}
	ours, err := isOurs(found)
	switch {
	case err != nil:
		return err
	case !ours:
		return fmt.Errorf("create %s %s: another owner's object has this name: %w", r.Kind, o.GetName(), ErrStale)
	}
	m.Wrote(r.Name, found.GetResourceVersion())
	return nil
}

// Patch sends the patch of an action and returns the object after it; nil if the object does not exist. If
// whole is not nil, it is the object after the patch, with the observed resourceVersion, and is sent with PUT
// instead of the patch: that is cheaper for the API server.
func (w *Writer) Patch(ctx context.Context, m *Memory, a *workload.Action, whole workload.Object) (workload.Object, error) {
	if err := m.InTime(time.Now()); err != nil {
		return nil, err
	}
	r, answer := w.Resource(a.Object), w.Resource(a.Object).New()
	namespace, name := a.Object.GetNamespace(), a.Object.GetName()
	send := func(request *rest.Request, verb string, body any) error {
		request = request.MaxRetries(0).Namespace(namespace).Resource(r.Name).Name(name)
		if a.Subresource != "" {
			request = request.SubResource(a.Subresource)
		}
		err := request.Body(body).Do(ctx).Into(answer)
		w.count(r.Name, verb, err)
		return err
	}
	var err error
	if whole != nil {
		err = send(r.Client.Put(), "update", whole)
	} else {
		revision := ""
		if a.Exact {
			revision = a.Object.GetResourceVersion()
		}
		err = send(r.Client.Patch(a.PatchType), "patch", workload.Named(a.Body(), a.Object.GetUID(), revision))
		err = patchError(err, r.Name, a.Object, func() (metav1.Object, error) { return r.get(ctx, namespace, name) })
	}
	switch {
	case apierrors.IsNotFound(err):
		m.Gone(a.Object.GetUID(), Touched{Resource: r.Name, Name: name, Until: Absent})
		return nil, nil
	case apierrors.IsConflict(err):
		return nil, ErrStale // another object or version
	case err != nil:
		if !Rejected(err) && !r.Owner {
			m.Unsettled(r.Name, name, a.Object.GetUID())
		}
		return nil, &WriteError{"patch", r.Kind, name, err}
	}
	answer.SetManagedFields(nil) // as in the caches
	switch {
	case r.Finalizer == "" || answer.GetDeletionTimestamp() == nil:
		m.Wrote(r.Name, answer.GetResourceVersion())
	case !slices.Contains(answer.GetFinalizers(), r.Finalizer):
		// The API rejects new finalizers on a terminating object, so the cache shows this for good.
		m.Gone(answer.GetUID(), Touched{Resource: r.Name, Name: name, Until: Released, Finalizer: r.Finalizer})
	}
	return answer, nil
}

// Delete deletes the object of an action. deleted is false if the object did not exist.
func (w *Writer) Delete(ctx context.Context, m *Memory, a *workload.Action) (deleted bool, err error) {
	if err := m.InTime(time.Now()); err != nil {
		return false, err
	}
	r, name := w.Resource(a.Object), a.Object.GetName()
	only := &metav1.Preconditions{UID: ptr.To(a.Object.GetUID())}
	if a.Exact {
		only.ResourceVersion = ptr.To(a.Object.GetResourceVersion())
	}
	err = r.Client.Delete().MaxRetries(0).Namespace(a.Object.GetNamespace()).Resource(r.Name).Name(name).
		Body(&metav1.DeleteOptions{Preconditions: only}).Do(ctx).Error()
	w.count(r.Name, "delete", err)
	until := Terminating
	switch {
	case apierrors.IsNotFound(err):
		until = Absent
	case apierrors.IsConflict(err):
		return false, ErrStale
	case err != nil:
		if !Rejected(err) {
			m.Unsettled(r.Name, name, a.Object.GetUID())
		}
		return false, &WriteError{"delete", r.Kind, name, err}
	}
	m.Gone(a.Object.GetUID(), Touched{Resource: r.Name, Name: name, Until: until})
	return err == nil, nil
}
