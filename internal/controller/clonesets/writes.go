package clonesets

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
	"github.com/rehearse-k8s/rehearse/internal/workload"
	"github.com/rehearse-k8s/rehearse/internal/workload/cloneset"
)

// newWriter returns the Writer of CloneSets and the objects that they own.
func (c *instance) newWriter() *reconcile.Writer {
	return reconcile.NewWriter(c.metrics.countWrite,
		reconcile.Resource{
			Name: setsResource, Kind: v1alpha1.Kind, Client: c.sets, JSON: true, Owner: true,
			New: func() workload.Object { return &v1alpha1.CloneSet{} },
		},
		reconcile.Resource{Name: podsResource, Kind: "pod", Client: c.client.CoreV1().RESTClient(), New: func() workload.Object { return &corev1.Pod{} }},
		reconcile.Resource{
			Name: claimsResource, Kind: "claim", Client: c.client.CoreV1().RESTClient(),
			New: func() workload.Object { return &corev1.PersistentVolumeClaim{} },
		},
		reconcile.Resource{
			Name: revisionsResource, Kind: "revision", Client: c.client.AppsV1().RESTClient(),
			New: func() workload.Object { return &appsv1.ControllerRevision{} },
		})
}

// carryOut carries out a decision: first the status; if the API rejects that because the CloneSet has
// changed, nothing else. So two instances that run at once, because one does not know yet that it has
// lost the lease, do no harm either.
func (c *instance) carryOut(ctx context.Context, set *v1alpha1.CloneSet, m *memory, d *cloneset.Decision) error {
	if d.Recheck {
		if err := c.writer.Recheck(ctx, set); err != nil {
			return err
		}
	}
	if m.revisionCollides {
		if d.Status == nil {
			d.Status = set.Status.DeepCopy()
		}
		d.Status.CollisionCount = ptr.To(ptr.Deref(d.Status.CollisionCount, 0) + 1)
		m.revisionCollides = false
	}
	if d.Status != nil {
		next := *set // only the status is written
		next.Status = *d.Status
		if err := c.writer.UpdateStatus(ctx, &m.Memory, &next); err != nil {
			return err
		}
		for _, e := range d.Events {
			c.events.Emit(set, e.Warning, e.Reason, e.Message)
		}
	}
	m.scaleError, m.updateError = firstError{}, firstError{}
	m.failed, m.unanswered = nil, nil
	err := c.act(ctx, set, m, d.Actions)
	m.finish(time.Now(), set.Generation, d, c.options.Limits.Pods)
	return err
}

// finish stores what the next plan needs to know of the writes of this one.
func (m *memory) finish(now time.Time, generation int64, d *cloneset.Decision, most int) {
	past := &m.past
	past.UpdateError = m.updateError.text()
	past.Taken = maps.Clone(m.taken)
	if d.Tally.Created > 0 || now.After(past.RetryAt) || m.scaleError.err != nil {
		past.ScaleError = m.scaleError.text() // without a new attempt the last error stays
	}
	if d.Tally.Created == 0 {
		return
	}
	// A name whose create had no answer is used again: its claims may exist, and a pod with another
	// name would leave them behind.
	past.Failed = maps.Clone(m.failed)
	maps.DeleteFunc(past.Failed, func(name string, _ bool) bool { return m.unanswered[name] })
	if len(m.failed) > 0 {
		past.CreateLimit, past.RetryAt, past.RetryOf = 1, now.Add(m.createBackoff.next()), generation
		return
	}
	m.createBackoff = backoff{}
	past.RetryAt = time.Time{}
	if past.CreateLimit *= 2; past.CreateLimit >= most {
		past.CreateLimit = 0
	}
}

// act carries out actions, several at a time. Once the create of a pod has failed, no other create
// starts, because it would fail for the same reason; other actions are independent of each other.
func (c *instance) act(ctx context.Context, set *v1alpha1.CloneSet, m *memory, actions []workload.Action) error {
	begin := func(i int, _ error) bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return actions[i].Verb != workload.Create || len(m.failed) == 0
	}
	return reconcile.Each(ctx, len(actions), c.options.Writes, begin, func(i int) error {
		a := &actions[i]
		if a.Verb == workload.Create {
			err := c.do(ctx, set, m, a)
			m.recordError(i, a, err)
			return err
		}
		err, waits := m.waits(a, time.Now())
		if !waits {
			err = c.do(ctx, set, m, a)
			m.recordAttempt(a, time.Now(), err)
		}
		m.recordError(i, a, err)
		return err
	})
}

// do carries out one action, and the one that follows it.
func (c *instance) do(ctx context.Context, set *v1alpha1.CloneSet, m *memory, a *workload.Action) error {
	switch a.Verb {
	case workload.Create:
		err := c.create(ctx, set, m, a)
		if err != nil && !errors.Is(err, reconcile.ErrTooOld) {
			name := lastOf(a).Object.GetName()
			m.note(&m.failed, name)
			if isUnanswered(err) {
				m.note(&m.unanswered, name)
			}
		}
		if err != nil || a.Then == nil {
			return err
		}
		return c.do(ctx, set, m, a.Then)
	case workload.Delete:
		return c.delete(ctx, set, m, a)
	}
	patched, err := c.patch(ctx, set, m, a)
	if err != nil || patched == nil || a.Then == nil {
		return err
	}
	then := *a.Then
	then.Object = patched
	return c.do(ctx, set, m, &then)
}

// isUnanswered reports whether a write may have had effect although it failed: there was no answer, or
// the answer is a timeout.
func isUnanswered(err error) bool {
	if errors.Is(err, reconcile.ErrStale) {
		return false
	}
	status := apierrors.APIStatus(nil)
	return !errors.As(err, &status) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

// lastOf returns the last action of a chain of creates: that of the pod, which follows its claims.
func lastOf(a *workload.Action) *workload.Action {
	for a.Then != nil {
		a = a.Then
	}
	return a
}

// create creates an object.
func (c *instance) create(ctx context.Context, set *v1alpha1.CloneSet, m *memory, a *workload.Action) error {
	created, err := c.writer.Create(ctx, &m.Memory, a.Object, func(found workload.Object) (bool, error) {
		if r, ok := found.(*appsv1.ControllerRevision); ok {
			return c.claimRevision(ctx, set, m, r)
		}
		if metav1.IsControlledBy(found, set) {
			return true, nil
		}
		m.note(&m.taken, lastOf(a).Object.GetName())
		return false, nil
	})
	resource := c.writer.Resource(a.Object)
	if created && resource.Name != revisionsResource {
		c.events.Emit(set, false, "SuccessfulCreate", fmt.Sprintf("created %s %s", resource.Kind, a.Object.GetName()))
	}
	c.emitFailure(ctx, set, "FailedCreate", "could not be created", err)
	return err
}

// patch changes an object and returns it after the change; nil if it does not exist any more.
func (c *instance) patch(ctx context.Context, set *v1alpha1.CloneSet, m *memory, a *workload.Action) (workload.Object, error) {
	patched, err := c.writer.Patch(ctx, &m.Memory, a, c.whole(a))
	if cloneset.InPlace(a.Reason.Code) {
		c.emitFailure(ctx, set, "FailedUpdatePodInPlace", "could not be updated", err)
	}
	if patched != nil {
		if a.Reason.Code == updatedInPlace {
			c.events.Emit(set, false, updatedInPlace, fmt.Sprintf("pod %s is %s", a.Object.GetName(), a.Reason.Text))
		}
		c.emitPlanned(set, a)
	}
	return patched, err
}

const updatedInPlace = "SuccessfulUpdatePodInPlace"

// emitPlanned emits the Event that the plan attached to an action.
func (c *instance) emitPlanned(set *v1alpha1.CloneSet, a *workload.Action) {
	if a.Event != "" {
		c.events.Emit(set, false, a.Event, fmt.Sprintf("pod %s: %s", a.Object.GetName(), a.Reason.Text))
	}
}

// emitFailure emits an Event about a CloneSet, if err is a failed write and the controller is not
// stopping.
func (c *instance) emitFailure(ctx context.Context, set *v1alpha1.CloneSet, reason, what string, err error) {
	var failed *reconcile.WriteError
	if errors.As(err, &failed) && ctx.Err() == nil {
		c.events.Emit(set, true, reason, fmt.Sprintf("%s %s %s: %s", failed.Kind, failed.Name, what, failed.Err))
	}
}

// whole returns the pod that the patch of an action results in; nil if pods are patched
// (Options.Whole), or if that pod is not known.
func (c *instance) whole(a *workload.Action) workload.Object {
	patch, ok := a.Patch.(workload.Applier)
	if !ok || !c.options.Whole {
		return nil
	}
	pod := c.known(a)
	if pod == nil {
		return nil
	}
	return patch.Applied(pod)
}

// known returns the pod that an action changes, with all its fields: as the last write returned it, or
// from the cache. It returns nil if that is not the version that the action is for, or if the action is for any
// version.
func (c *instance) known(a *workload.Action) *corev1.Pod {
	named, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	pod := named
	if len(named.Spec.Containers) == 0 { // plans only name pods
		pod = cached[corev1.Pod](c, podsResource, named.Namespace, named.Name)
	}
	if !a.Exact || pod == nil || pod.UID != named.UID || pod.ResourceVersion != named.ResourceVersion || len(pod.Spec.Containers) == 0 {
		return nil
	}
	return pod
}

// delete deletes an object.
func (c *instance) delete(ctx context.Context, set *v1alpha1.CloneSet, m *memory, a *workload.Action) error {
	deleted, err := c.writer.Delete(ctx, &m.Memory, a)
	if deleted {
		c.emitPlanned(set, a)
		if resource := c.writer.Resource(a.Object); resource.Name != revisionsResource {
			c.events.Emit(set, false, "SuccessfulDelete", fmt.Sprintf("deleted %s %s: %s", resource.Kind, a.Object.GetName(), a.Reason.Text))
		}
	}
	c.emitFailure(ctx, set, "FailedDelete", "could not be deleted", err)
	return err
}
