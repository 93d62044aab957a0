package jobs

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
	"github.com/rehearse-k8s/rehearse/internal/workload"
	"github.com/rehearse-k8s/rehearse/internal/workload/job"
)

// sync reconciles one key.
func (c *instance) sync(ctx context.Context, k key) (outcome, error) {
	if k.pod {
		return c.syncOrphan(ctx, k)
	}
	m := c.memories.Of(k)
	if err := c.writer.Settle(ctx, &m.Memory, k.namespace); err != nil {
		return outcome{}, err
	}
	if c.behind(ctx, k, m) {
		return outcome{wake: reconcile.Fallback}, nil
	}
	m.Decided(time.Now())
	j, err := c.job(k)
	switch {
	case err != nil:
		return outcome{}, err
	case j == nil:
		return c.syncGone(ctx, k, m)
	case !c.options.manages(j):
		c.memories.Forget(k)
		return outcome{}, nil
	}
	return c.syncJob(ctx, k, j, m)
}

// syncJob makes a plan for a Job and carries it out.
func (c *instance) syncJob(ctx context.Context, k key, j *batchv1.Job, m *memory) (outcome, error) {
	m.managed = true
	pods, orphans := c.podsOf(k, j)
	c.memories.SetSize(k, len(pods))
	d := job.Plan(time.Now(), job.State{Job: j, Pods: pods, Orphans: orphans, Past: m.past, Limits: c.options.Limits})
	if log := klog.FromContext(ctx).V(4); log.Enabled() {
		for _, r := range d.Reasons {
			log.Info(r.Text, "job", klog.KObj(j), "reason", r.Code)
		}
	}
	o := outcome{wake: d.Wake, mode: mode(j), action: actionOf(&d)}
	if job.Ended(j) && len(d.Actions) == 0 {
		c.memories.Forget(k) // nothing to remember until something changes
		return o, nil
	}
	m.past = d.Past
	c.memories.setUrgent(k, d.Tally.Open)
	switch {
	case d.Tally.Surplus == 0:
		m.generation = j.Generation
	case m.generation == j.Generation: // there was no surplus before, and the Job has not changed
		c.metrics.surplusPods(d.Tally.Surplus)
		m.generation = 0 // count it once
	}
	err := c.carryOut(ctx, j, m, &d)
	if len(d.Actions) > 0 && err == nil { // after an error, the queue's backoff
		o.wake = workload.Soonest(o.wake, reconcile.Fallback)
	}
	return o, err
}

// behind reports whether a cache does not show this controller's own writes for a Job yet.
func (c *instance) behind(ctx context.Context, k key, m *memory) bool {
	resource, why, waited := m.Behind(time.Now(), k.namespace, c.store)
	if why == "" {
		c.metrics.Waited(waited)
		return false
	}
	klog.FromContext(ctx).V(4).Info("Job waits for its caches", "job", k.Ref(), "because", why)
	if resource == jobsResource {
		c.metrics.StaleSync(batchv1.GroupName, jobsResource)
	} else {
		c.metrics.StaleSync("", podsResource)
	}
	return true
}

// syncGone removes our finalizer from the pods of a Job that is not in the cache: otherwise they would stay
// terminating for ever. It first reads the Job from the API, because a pod without finalizer is not counted.
func (c *instance) syncGone(ctx context.Context, k key, m *memory) (outcome, error) {
	pods, orphans := c.podsOf(k, nil)
	actions := job.Leftover(append(pods, orphans...), c.options.Limits.Pods)
	if len(actions) == 0 || !c.options.All && !m.managed {
		c.memories.Forget(k)
		return outcome{}, nil
	}
	live, err := c.liveJob(ctx, k.namespace, k.name)
	switch {
	case err != nil:
		return outcome{}, err
	case live != nil && live.UID == k.uid:
		return outcome{wake: reconcile.Fallback}, nil
	}
	if _, err := c.act(ctx, nil, m, actions); err != nil {
		return outcome{}, err
	}
	return outcome{wake: reconcile.Fallback}, nil
}

// syncOrphan removes our finalizer from a pod that belongs to no Job.
func (c *instance) syncOrphan(ctx context.Context, k key) (outcome, error) {
	m := &memory{}
	m.Decided(time.Now())
	pod := c.pod(k.namespace, k.name)
	if pod == nil || pod.UID != k.uid || !job.HasFinalizer(pod) || metav1.GetControllerOfNoCopy(pod) != nil || len(c.matchingJobs(pod)) > 0 || !c.options.All {
		return outcome{}, nil
	}
	if name := pod.Labels[batchv1.JobNameLabel]; name != "" {
		live, err := c.liveJob(ctx, k.namespace, name)
		if err != nil {
			return outcome{}, err
		}
		if live != nil && string(live.UID) == pod.Labels[batchv1.ControllerUidLabel] {
			return outcome{wake: reconcile.Fallback}, nil
		}
	}
	_, err := c.act(ctx, nil, m, job.Leftover([]*corev1.Pod{pod}, 1))
	return outcome{}, err
}

// liveJob reads a Job from the API. It returns nil if the Job does not exist.
func (c *instance) liveJob(ctx context.Context, namespace, name string) (*batchv1.Job, error) {
	j, err := c.client.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return j, err
}
