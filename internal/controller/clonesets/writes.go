package clonesets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
	"github.com/rehearse-k8s/rehearse/internal/workload"
	"github.com/rehearse-k8s/rehearse/internal/workload/cloneset"
)

// carryOut does what was decided: the status first, and if the API refuses that because
// the set has changed, nothing else. So two instances that run at once, because one
// does not know yet that it has lost the lead, do no harm either.
func (c *instance) carryOut(ctx context.Context, set *v1alpha1.CloneSet, m *memory, d *cloneset.Decision) error {
	if d.Recheck {
		live, err := c.liveSet(ctx, set.Namespace, set.Name)
		if err != nil {
			return err
		}
		if live == nil || live.UID != set.UID || live.ResourceVersion != set.ResourceVersion {
			return reconcile.ErrStale
		}
	}
	if m.collides {
		if d.Status == nil {
			d.Status = set.Status.DeepCopy()
		}
		d.Status.CollisionCount = ptr.To(ptr.Deref(d.Status.CollisionCount, 0) + 1)
		m.collides = false
	}
	if d.Status != nil {
		if err := c.writeStatus(ctx, set, m, d); err != nil {
			return err
		}
	}
	m.scaleError, m.updateError = numbered{}, numbered{}
	m.failed, m.unanswered = nil, nil
	err := c.act(ctx, set, m, d.Actions)
	m.remember(time.Now(), set.Generation, d, c.options.Limits.Pods)
	return err
}

// remember keeps what writes have told for the next plan.
func (m *memory) remember(now time.Time, generation int64, d *cloneset.Decision, most int) {
	past := &m.past
	past.UpdateError = m.updateError.text()
	past.Taken = maps.Clone(m.taken)
	if d.Tally.Created > 0 || now.After(past.RetryAt) || m.scaleError.err != nil {
		past.ScaleError = m.scaleError.text() // while none is tried, the last one counts
	}
	if d.Tally.Created == 0 {
		return
	}
	// A name whose create was not answered is the next one again: its claims may be there now,
	// and under another name the pod would leave them behind.
	past.Failed = maps.Clone(m.failed)
	maps.DeleteFunc(past.Failed, func(name string, _ bool) bool { return m.unanswered[name] })
	if len(m.failed) > 0 {
		past.Batch, past.RetryAt, past.RetryOf = 1, now.Add(m.creates.fails()), generation
		return
	}
	m.creates = backoff{}
	past.RetryAt = time.Time{}
	if past.Batch *= 2; past.Batch >= most {
		past.Batch = 0
	}
}

func (c *instance) writeStatus(ctx context.Context, set *v1alpha1.CloneSet, m *memory, d *cloneset.Decision) error {
	if err := m.InTime(time.Now()); err != nil {
		return err
	}
	next := *set // the status is all that is written, and all that is ours
	next.Status = *d.Status
	result := c.sets.Put().Namespace(set.Namespace).Resource(setsResource).Name(set.Name).SubResource("status").MaxRetries(0).Body(&next).Do(ctx)
	// Of the answer no more is read than its version: the rest may be unreadable.
	written := &metav1.PartialObjectMetadata{}
	err := result.Error()
	if body, _ := result.Raw(); err == nil {
		err = json.Unmarshal(body, written)
	}
	c.metrics.wrote(setsResource, "update", err)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return reconcile.ErrStale
	case err != nil:
		return fmt.Errorf("status: %w", err)
	}
	m.Wrote(setsResource, written.ResourceVersion)
	for _, e := range d.Events {
		c.events.Tell(set, e.Warning, e.Reason, e.Message)
	}
	return nil
}

// act carries actions out, several at a time. Once a pod could not be made, no other one
// is, because they would meet with the same; nothing else waits for anything.
func (c *instance) act(ctx context.Context, set *v1alpha1.CloneSet, m *memory, actions []workload.Action) error {
	creates := func(i int) bool { return actions[i].Verb == workload.Create }
	begin := func(i int, _ error) bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return !creates(i) || len(m.failed) == 0
	}
	return reconcile.Each(ctx, len(actions), c.options.Writes, begin, func(i int) error {
		a := &actions[i]
		if a.Verb == workload.Create {
			err := c.do(ctx, set, m, a)
			m.tell(i, a, err)
			return err
		}
		err, waits := m.waits(a, time.Now())
		if !waits {
			err = c.do(ctx, set, m, a)
			m.tried(a, time.Now(), err)
		}
		m.tell(i, a, err)
		return err
	})
}

// do carries one action out, and what follows it, unless that was decided too long ago.
func (c *instance) do(ctx context.Context, set *v1alpha1.CloneSet, m *memory, a *workload.Action) error {
	if err := m.InTime(time.Now()); err != nil {
		return err
	}
	switch a.Verb {
	case workload.Create:
		if err := c.create(ctx, set, m, a); err != nil {
			name := lastOf(a).Object.GetName()
			m.note(&m.failed, name)
			if unanswered(err) {
				m.note(&m.unanswered, name)
			}
			return err
		}
		if a.Then != nil {
			return c.do(ctx, set, m, a.Then)
		}
		return nil
	case workload.Delete:
		return c.delete(ctx, set, m, a)
	}
	left, err := c.patch(ctx, set, m, a)
	if err != nil || left == nil || a.Then == nil {
		return err
	}
	then := *a.Then
	then.Object = left
	return c.do(ctx, set, m, &then)
}

// unanswered tells whether nobody knows if a write had effect: there was no answer, or one that
// says no more than that it took too long.
func unanswered(err error) bool {
	if errors.Is(err, reconcile.ErrStale) {
		return false
	}
	status := apierrors.APIStatus(nil)
	return !errors.As(err, &status) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

// lastOf is what a chain of creates ends with: a pod, whose claims come before it.
func lastOf(a *workload.Action) *workload.Action {
	for a.Then != nil {
		a = a.Then
	}
	return a
}

// kind is what the API calls an object, and the client for it.
func (c *instance) kind(o workload.Object) (resource, name string, client rest.Interface, blank workload.Object) {
	switch o.(type) {
	case *corev1.Pod:
		return podsResource, "pod", c.client.CoreV1().RESTClient(), &corev1.Pod{}
	case *corev1.PersistentVolumeClaim:
		return claimsResource, "claim", c.client.CoreV1().RESTClient(), &corev1.PersistentVolumeClaim{}
	case *appsv1.ControllerRevision:
		return revisionsResource, "revision", c.client.AppsV1().RESTClient(), &appsv1.ControllerRevision{}
	}
	return setsResource, "CloneSet", c.sets, &v1alpha1.CloneSet{}
}

// create makes an object. Its name follows from what was decided, so one that bears it
// already is the one that was to be made, or one that the cache does not show yet.
func (c *instance) create(ctx context.Context, set *v1alpha1.CloneSet, m *memory, a *workload.Action) error {
	resource, kind, client, made := c.kind(a.Object)
	name := a.Object.GetName()
	// client-go would send it again by itself after a 429, some time after it was decided.
	err := client.Post().MaxRetries(0).Namespace(set.Namespace).Resource(resource).Body(a.Object).Do(ctx).Into(made)
	c.metrics.wrote(resource, "create", err)
	switch {
	case err == nil:
		m.Wrote(resource, made.GetResourceVersion())
		if resource != revisionsResource {
			c.events.Tell(set, false, "SuccessfulCreate", fmt.Sprintf("created %s %s", kind, name))
		}
		return nil
	case apierrors.IsAlreadyExists(err):
		return c.meet(ctx, set, m, a, resource)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return fmt.Errorf("nothing is made: %w", err) // the set goes with the namespace, some time
	case !reconcile.Refused(err):
		m.Unsettled(resource, name, "")
	}
	if ctx.Err() == nil {
		c.events.Tell(set, true, "FailedCreate", fmt.Sprintf("%s %s could not be created: %s", kind, name, err))
	}
	return fmt.Errorf("creating %s %s: %w", kind, name, err)
}

// meet looks at the object that bears a name that was to be given.
func (c *instance) meet(ctx context.Context, set *v1alpha1.CloneSet, m *memory, a *workload.Action, resource string) error {
	found, err := c.live(ctx, resource, set.Namespace, a.Object.GetName())
	switch {
	case apierrors.IsNotFound(err):
		return reconcile.ErrStale
	case err != nil:
		return err
	}
	if r, ok := found.(*appsv1.ControllerRevision); ok {
		return c.meetRevision(ctx, set, m, r)
	}
	if metav1.IsControlledBy(found, set) {
		m.Wrote(resource, found.GetResourceVersion())
		return nil
	}
	m.note(&m.taken, lastOf(a).Object.GetName())
	return fmt.Errorf("%s %s belongs to somebody else: %w", resource, found.GetName(), reconcile.ErrStale)
}

// patch changes an object, and returns what that has left.
func (c *instance) patch(ctx context.Context, set *v1alpha1.CloneSet, m *memory, a *workload.Action) (workload.Object, error) {
	resource, kind, client, left := c.kind(a.Object)
	sent, err := c.putWhole(ctx, a, left)
	if !sent {
		revision := ""
		if a.Exact {
			revision = a.Object.GetResourceVersion()
		}
		request := client.Patch(a.PatchType).MaxRetries(0).Namespace(set.Namespace).Resource(resource).Name(a.Object.GetName())
		if a.Subresource != "" {
			request = request.SubResource(a.Subresource)
		}
		err = request.Body(workload.Named(a.Body(), a.Object.GetUID(), revision)).Do(ctx).Into(left)
		c.metrics.wrote(resource, "patch", err)
		err = reconcile.PatchError(err, resource, a.Object, func() (metav1.Object, error) {
			return c.live(ctx, resource, set.Namespace, a.Object.GetName())
		})
	}
	switch {
	case apierrors.IsNotFound(err):
		m.Gone(a.Object.GetUID(), reconcile.Touched{Resource: resource, Name: a.Object.GetName(), Until: reconcile.Absent})
		return nil, nil
	case apierrors.IsConflict(err):
		return nil, reconcile.ErrStale // it is another one, or another version
	case err != nil:
		if !reconcile.Refused(err) && resource != setsResource {
			m.Unsettled(resource, a.Object.GetName(), a.Object.GetUID())
		}
		if cloneset.InPlace(a.Reason.Code) && ctx.Err() == nil {
			c.events.Tell(set, true, "FailedUpdatePodInPlace", fmt.Sprintf("pod %s could not be updated: %s", a.Object.GetName(), err))
		}
		return nil, fmt.Errorf("patching %s %s: %w", kind, a.Object.GetName(), err)
	}
	left.SetManagedFields(nil) // as in the caches; the API knows them
	m.Wrote(resource, left.GetResourceVersion())
	if a.Reason.Code == updatedInPlace {
		c.events.Tell(set, false, updatedInPlace, fmt.Sprintf("pod %s is %s", a.Object.GetName(), a.Reason.Text))
	}
	c.emit(set, a)
	return left, nil
}

// emit emits the Event that a plan wants of a write that has had effect.
func (c *instance) emit(set *v1alpha1.CloneSet, a *workload.Action) {
	if a.Event != "" {
		c.events.Tell(set, false, a.Event, fmt.Sprintf("pod %s: %s", a.Object.GetName(), a.Reason.Text))
	}
}

// putWhole sends a pod as a patch would leave it, if that may be done and is known. It is
// for the version that it was made from; if there is another one and the action is not for
// exactly this version, nothing is as if it was sent.
func (c *instance) putWhole(ctx context.Context, a *workload.Action, left workload.Object) (sent bool, err error) {
	if !c.options.Whole {
		return false, nil
	}
	patch, ok := a.Patch.(workload.Applier)
	if !ok {
		return false, nil
	}
	pod := c.known(a)
	if pod == nil {
		return false, nil
	}
	next := patch.Applied(pod)
	if next == nil {
		return false, nil
	}
	request := c.client.CoreV1().RESTClient().Put().MaxRetries(0).Namespace(pod.Namespace).Resource(podsResource).Name(pod.Name)
	if a.Subresource != "" {
		request = request.SubResource(a.Subresource)
	}
	err = request.Body(next).Do(ctx).Into(left)
	c.metrics.wrote(podsResource, "update", err)
	return a.Exact || !apierrors.IsConflict(err), err
}

// known is the whole of the pod that a change is for: as a write has just left it, or as the
// cache shows it. It is nil if that is not the version which the change is for, or, of a change
// that is for any version, if the kubelet has yet to say that it runs: that one writes at the
// same time.
func (c *instance) known(a *workload.Action) *corev1.Pod {
	named, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	pod := named
	if len(named.Spec.Containers) == 0 { // plans name pods only
		pod = cached[corev1.Pod](c, podsResource, named.Namespace, named.Name)
	}
	switch {
	case pod == nil || pod.UID != named.UID || len(pod.Spec.Containers) == 0:
		return nil
	case a.Exact && pod.ResourceVersion != named.ResourceVersion, !a.Exact && pod.Status.Phase != corev1.PodRunning:
		return nil
	}
	return pod
}

const updatedInPlace = "SuccessfulUpdatePodInPlace"

func (c *instance) delete(ctx context.Context, set *v1alpha1.CloneSet, m *memory, a *workload.Action) error {
	resource, kind, client, _ := c.kind(a.Object)
	gone := reconcile.Touched{Resource: resource, Name: a.Object.GetName(), Until: reconcile.Terminating}
	only := &metav1.Preconditions{UID: ptr.To(a.Object.GetUID())}
	if a.Exact {
		only.ResourceVersion = ptr.To(a.Object.GetResourceVersion())
	}
	err := client.Delete().MaxRetries(0).Namespace(set.Namespace).Resource(resource).Name(a.Object.GetName()).
		Body(&metav1.DeleteOptions{Preconditions: only}).Do(ctx).Error()
	c.metrics.wrote(resource, "delete", err)
	switch {
	case apierrors.IsNotFound(err):
		gone.Until = reconcile.Absent
	case apierrors.IsConflict(err):
		return reconcile.ErrStale
	case err != nil:
		if !reconcile.Refused(err) {
			m.Unsettled(resource, a.Object.GetName(), a.Object.GetUID())
		}
		if ctx.Err() == nil {
			c.events.Tell(set, true, "FailedDelete", fmt.Sprintf("%s %s could not be deleted: %s", kind, a.Object.GetName(), err))
		}
		return fmt.Errorf("deleting %s %s: %w", kind, a.Object.GetName(), err)
	default:
		c.emit(set, a)
		if resource != revisionsResource {
			c.events.Tell(set, false, "SuccessfulDelete", fmt.Sprintf("deleted %s %s: %s", kind, a.Object.GetName(), a.Reason.Text))
		}
	}
	m.Gone(a.Object.GetUID(), gone)
	return nil
}
