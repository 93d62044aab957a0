package jobs

import (
	"context"
	"errors"
	"sync/atomic"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
	"github.com/rehearse-k8s/rehearse/internal/workload"
	"github.com/rehearse-k8s/rehearse/internal/workload/job"
)

// newWriter returns the Writer of Jobs and pods.
func (c *instance) newWriter() *reconcile.Writer {
	return reconcile.NewWriter(nil,
		reconcile.Resource{
			Name: jobsResource, Kind: kind, Client: c.client.BatchV1().RESTClient(), Owner: true,
			New: func() workload.Object { return &batchv1.Job{} },
		},
		reconcile.Resource{
			Name: podsResource, Kind: "pod", Client: c.client.CoreV1().RESTClient(), Finalizer: batchv1.JobTrackingFinalizer,
			New: func() workload.Object { return &corev1.Pod{} },
		})
}

// carryOut carries out a decision: first the status; if the API rejects that because the Job has
// changed, nothing else. So two instances that run at once, because one does not know yet that it has
// lost the lease, do no harm either.
func (c *instance) carryOut(ctx context.Context, j *batchv1.Job, m *memory, d *job.Decision) error {
	if d.Recheck {
		if err := c.writer.Recheck(ctx, j); err != nil {
			return err
		}
	}
	if d.Status != nil {
		next := *j // only the status is written
		next.Status = *d.Status
		if err := c.writer.UpdateStatus(ctx, &m.Memory, &next); err != nil {
			return err
		}
		c.metrics.statusWritten(j, d)
	}
	for _, e := range d.Events {
		c.emit(j, e.Warning, e.Reason, e.Message)
	}
	c.metrics.failuresHandled(d.Tally.Handled)
	m.creates = creationReason(j, d)
	slow, err := c.act(ctx, j, m, d.Actions)
	if d.Tally.Created > 0 {
		m.past.Batch = nextBatch(m.past.Batch, c.options.Limits.Pods, slow)
	}
	return err
}

// nextBatch returns how many pods the next plan may create: one if creates are to be slow, else twice as many.
func nextBatch(batch, most int, slow bool) int {
	if slow {
		return 1
	}
	return min(2*max(1, batch), most)
}

// mostRejected is the number of writes in one round that the API may reject before no other is begun.
const mostRejected = 16

// act carries out actions, several at a time, and returns the first error, and whether the next creates are to be slow: one of these failed, or the API server is busy. After a create that failed it starts no further create: the cause, such as a
// quota, concerns them all. A write that the API rejects does not stop those of other pods, because it may be rejected in each plan: a policy may deny it. Every
// other error, such as that of a busy API server, and many rejections stop all.
func (c *instance) act(ctx context.Context, j *batchv1.Job, m *memory, actions []workload.Action) (slow bool, err error) {
	var rejected atomic.Int32
	var failed, noCreates atomic.Bool
	begin := func(i int, _ error) bool {
		return !failed.Load() && rejected.Load() < mostRejected && (actions[i].Verb != workload.Create || !noCreates.Load())
	}
	err = reconcile.Each(ctx, len(actions), c.options.Writes, begin, func(i int) error {
		err := c.do(ctx, j, m, &actions[i])
		switch {
		case err == nil, errors.Is(err, reconcile.ErrStale):
			return err
		case !reconcile.Rejected(err) || apierrors.IsTooManyRequests(err):
			failed.Store(true)
		default:
			rejected.Add(1)
		}
		if actions[i].Verb == workload.Create {
			noCreates.Store(true)
		}
		return err
	})
	return noCreates.Load() || failed.Load(), err
}

// do carries out one action, and the one that follows it. j is nil if the Job does not exist any more.
func (c *instance) do(ctx context.Context, j *batchv1.Job, m *memory, a *workload.Action) error {
	switch a.Verb {
	case workload.Create:
		return c.create(ctx, j, m, a.Object)
	case workload.Delete:
		deleted, err := c.writer.Delete(ctx, &m.Memory, a)
		if deleted {
			c.emit(j, false, "SuccessfulDelete", "Deleted pod: "+a.Object.GetName())
		}
		c.emitFailure(ctx, j, "FailedDelete", "Error deleting: ", err)
		return err
	}
	patched, err := c.writer.Patch(ctx, &m.Memory, a, nil)
	if reconcile.Rejected(err) && !apierrors.IsTooManyRequests(err) { // a user has to fix the cause
		c.emitFailure(ctx, j, "FailedUpdatePod", "Error updating: ", err)
	}
	if err != nil || patched == nil || a.Then == nil {
		return err
	}
	then := *a.Then
	then.Object = patched
	return c.do(ctx, j, m, &then)
}

// create creates a pod of a Job.
func (c *instance) create(ctx context.Context, j *batchv1.Job, m *memory, pod workload.Object) error {
	created, err := c.writer.Create(ctx, &m.Memory, pod, func(found workload.Object) (bool, error) {
		if metav1.IsControlledBy(found, j) {
			return true, nil
		}
		m.nameTaken(found.GetName())
		return false, nil
	})
	if !errors.Is(err, reconcile.ErrTooOld) {
		c.metrics.podCreation(m.creates, created)
	}
	if created {
		c.emit(j, false, "SuccessfulCreate", "Created pod: "+pod.GetName())
	}
	c.emitFailure(ctx, j, "FailedCreate", "Error creating: ", err)
	return err
}

// emitFailure emits an Event about a Job, if err is a failed write and the controller is not stopping.
func (c *instance) emitFailure(ctx context.Context, j *batchv1.Job, reason, message string, err error) {
	var failed *reconcile.WriteError
	if errors.As(err, &failed) && ctx.Err() == nil {
		c.emit(j, true, reason, message+failed.Err.Error())
	}
}

// emit emits an Event about a Job.
func (c *instance) emit(j *batchv1.Job, warning bool, reason, message string) {
	if j != nil {
		c.events.Emit(j, warning, reason, message)
	}
}
