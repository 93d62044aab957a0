package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
	"github.com/rehearse-k8s/rehearse/internal/workload"
	"github.com/rehearse-k8s/rehearse/internal/workload/job"
)

// carryOut does what was decided: the status first, and if the API refuses that because
// the Job has changed, nothing else. So two instances that run at once, because one
// does not know yet that it has lost the lead, do no harm either.
func (c *instance) carryOut(ctx context.Context, j *batchv1.Job, m *memory, d *job.Decision) error {
	if d.Recheck {
		live, err := c.liveJob(ctx, j.Namespace, j.Name)
		if err != nil {
			return err
		}
		if live == nil || live.UID != j.UID || live.ResourceVersion != j.ResourceVersion {
			return reconcile.ErrStale
		}
	}
	if d.Status != nil {
		if err := c.writeStatus(ctx, j, m, d); err != nil {
			return err
		}
	}
	for _, e := range d.Events {
		c.tell(j, e.Warning, e.Reason, e.Message)
	}
	c.metrics.handledBy(d.Tally.Handled)
	m.creates = creationReason(j, d)
	err := c.act(ctx, j, m, d.Actions)
	if d.Tally.Created > 0 {
		m.past.Batch = batchAfter(m.past.Batch, c.options.Limits.Pods, err)
	}
	return err
}

// batchAfter doubles the number of pods that may be made at once while that works.
func batchAfter(batch, most int, err error) int {
	if err != nil && !errors.Is(err, reconcile.ErrStale) {
		return 1
	}
	return min(2*max(1, batch), most)
}

func (c *instance) writeStatus(ctx context.Context, j *batchv1.Job, m *memory, d *job.Decision) error {
	if err := m.InTime(time.Now()); err != nil {
		return err
	}
	next := *j // the status is all that is written, and all that is ours
	next.Status = *d.Status
	written := &batchv1.Job{}
	err := c.client.BatchV1().RESTClient().Put().MaxRetries(0).Namespace(j.Namespace).Resource(jobsResource).Name(j.Name).SubResource("status").
		Body(&next).Do(ctx).Into(written)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return reconcile.ErrStale
	case err != nil:
		return fmt.Errorf("status: %w", err)
	}
	m.Wrote(jobsResource, written.ResourceVersion)
	c.metrics.counted(j, d)
	return nil
}

// act carries actions out, several at a time. After an error no further one is begun,
// and the first is returned. A pod that has changed meanwhile keeps nobody else waiting.
func (c *instance) act(ctx context.Context, j *batchv1.Job, m *memory, actions []workload.Action) error {
	untilOneFails := func(_ int, failed error) bool { return failed == nil }
	return reconcile.Each(ctx, len(actions), c.options.Writes, untilOneFails, func(i int) error { return c.do(ctx, j, m, &actions[i]) })
}

// do carries one action out, and what follows it, unless that was decided too long ago.
// client-go repeats no write by itself (MaxRetries): the time that it waits before it does, and
// what it would meet then, are known to no plan.
func (c *instance) do(ctx context.Context, j *batchv1.Job, m *memory, a *workload.Action) error {
	if err := m.InTime(time.Now()); err != nil {
		return err
	}
	pod := a.Object.(*corev1.Pod)
	switch a.Verb {
	case workload.Create:
		return c.create(ctx, j, m, pod)
	case workload.Delete:
		return c.delete(ctx, j, m, pod, a.Exact)
	}
	left, err := c.patch(ctx, m, pod, a)
	if reconcile.Refused(err) && !apierrors.IsTooManyRequests(err) { // the Job goes on when somebody mends that
		c.tell(j, true, "FailedUpdatePod", "Error updating: "+err.Error())
	}
	if err != nil || left == nil || a.Then == nil {
		return err
	}
	then := *a.Then
	then.Object = left
	return c.do(ctx, j, m, &then)
}

// create makes a pod. Its name follows from what was decided, so a pod that bears it
// already is the one that was to be made, or one that the cache does not show yet.
func (c *instance) create(ctx context.Context, j *batchv1.Job, m *memory, pod *corev1.Pod) error {
	made := &corev1.Pod{}
	err := c.client.CoreV1().RESTClient().Post().MaxRetries(0).Namespace(pod.Namespace).Resource(podsResource).Body(pod).Do(ctx).Into(made)
	c.metrics.created(m.creates, err)
	switch {
	case err == nil:
		m.Wrote(podsResource, made.ResourceVersion)
		c.tell(j, false, "SuccessfulCreate", "Created pod: "+made.Name)
		return nil
	case apierrors.IsAlreadyExists(err):
		return c.meet(ctx, j, m, pod.Name)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return fmt.Errorf("no pods are made: %w", err) // the Job goes with the namespace, some time
	case !reconcile.Refused(err):
		m.Unsettled(podsResource, pod.Name, "")
	}
	if ctx.Err() == nil {
		c.tell(j, true, "FailedCreate", "Error creating: "+err.Error())
	}
	return fmt.Errorf("creating pod %s: %w", pod.Name, err)
}

// meet looks at the pod that bears a name that was to be given.
func (c *instance) meet(ctx context.Context, j *batchv1.Job, m *memory, name string) error {
	pod, err := c.client.CoreV1().Pods(j.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return reconcile.ErrStale
	case err != nil:
		return err
	case metav1.IsControlledBy(pod, j):
		m.Wrote(podsResource, pod.ResourceVersion)
		return nil
	}
	m.taken(name)
	return fmt.Errorf("pod %s belongs to somebody else: %w", name, reconcile.ErrStale)
}

func (c *instance) patch(ctx context.Context, m *memory, pod *corev1.Pod, a *workload.Action) (*corev1.Pod, error) {
	left := &corev1.Pod{}
	err := c.client.CoreV1().RESTClient().Patch(a.PatchType).MaxRetries(0).Namespace(pod.Namespace).Resource(podsResource).Name(pod.Name).
		Body(a.Body()).Do(ctx).Into(left)
	err = reconcile.PatchError(err, podsResource, pod, func() (metav1.Object, error) {
		return c.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	})
	switch {
	case apierrors.IsNotFound(err):
		m.Gone(pod.UID, reconcile.Touched{Resource: podsResource, Name: pod.Name, Until: reconcile.Absent})
		return nil, nil
	case apierrors.IsConflict(err):
		return nil, reconcile.ErrStale // it is another version
	case err != nil:
		if !reconcile.Refused(err) {
			m.Unsettled(podsResource, pod.Name, pod.UID)
		}
		return nil, fmt.Errorf("patching pod %s: %w", pod.Name, err)
	}
	if left.DeletionTimestamp == nil {
		m.Wrote(podsResource, left.ResourceVersion)
	} else if !job.Held(left) {
		// The answer to the patch that removes the last finalizer of a terminating pod
		// carries the revision from before it. Nobody can give such a pod a finalizer again.
		m.Gone(left.UID, reconcile.Touched{Resource: podsResource, Name: left.Name, Until: reconcile.Released, Finalizer: batchv1.JobTrackingFinalizer})
	}
	return left, nil
}

func (c *instance) delete(ctx context.Context, j *batchv1.Job, m *memory, pod *corev1.Pod, exact bool) error {
	gone := reconcile.Touched{Resource: podsResource, Name: pod.Name, Until: reconcile.Terminating}
	only := &metav1.Preconditions{UID: ptr.To(pod.UID)}
	if exact {
		only.ResourceVersion = ptr.To(pod.ResourceVersion)
	}
	err := c.client.CoreV1().RESTClient().Delete().MaxRetries(0).Namespace(pod.Namespace).Resource(podsResource).Name(pod.Name).
		Body(&metav1.DeleteOptions{Preconditions: only}).Do(ctx).Error()
	switch {
	case apierrors.IsNotFound(err):
		gone.Until = reconcile.Absent
	case apierrors.IsConflict(err):
		return reconcile.ErrStale
	case err != nil:
		if !reconcile.Refused(err) {
			m.Unsettled(podsResource, pod.Name, pod.UID)
		}
		if ctx.Err() == nil {
			c.tell(j, true, "FailedDelete", "Error deleting: "+err.Error())
		}
		return fmt.Errorf("deleting pod %s: %w", pod.Name, err)
	default:
		c.tell(j, false, "SuccessfulDelete", "Deleted pod: "+pod.Name)
	}
	m.Gone(pod.UID, gone)
	return nil
}

// tell sends an Event about a Job.
func (c *instance) tell(j *batchv1.Job, warning bool, reason, message string) {
	if j != nil {
		c.events.Tell(j, warning, reason, message)
	}
}
