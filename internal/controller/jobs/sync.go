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

// sync looks after one key, and says when to look again at the latest.
func (c *instance) sync(ctx context.Context, k key) (outcome, error) {
	if k.pod {
		return c.syncLone(ctx, k)
	}
	m := c.memories.Of(k)
	if err := m.Settle(c.livePod(ctx, k.namespace)); err != nil {
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
	case !c.options.mine(j):
		c.memories.Forget(k)
		return outcome{}, nil
	}
	return c.syncJob(ctx, k, j, m)
}

// syncJob asks for a plan and carries it out.
func (c *instance) syncJob(ctx context.Context, k key, j *batchv1.Job, m *memory) (outcome, error) {
	m.mine = true
	pods, orphans := c.podsOf(k, j)
	c.memories.Sized(k, len(pods))
	d := job.Plan(time.Now(), job.State{Job: j, Pods: pods, Orphans: orphans, Past: m.past, Limits: c.options.Limits})
	if log := klog.FromContext(ctx).V(4); log.Enabled() {
		for _, r := range d.Reasons {
			log.Info(r.Text, "job", klog.KObj(j), "reason", r.Code)
		}
	}
	o := outcome{wake: d.Wake, mode: mode(j), action: actionOf(&d)}
	if job.Ended(j) && len(d.Actions) == 0 {
		c.memories.Forget(k) // until something changes there is nothing to remember
		return o, nil
	}
	m.past = d.Past
	c.memories.isOpen(k, d.Tally.Open)
	switch {
	case d.Tally.Surplus == 0:
		m.generation = j.Generation
	case m.generation == j.Generation: // there were not too many, and nobody has asked for fewer
		c.metrics.podsBeyond(d.Tally.Surplus)
		m.generation = 0 // once is enough
	}
	err := c.carryOut(ctx, j, m, &d)
	if len(d.Actions) > 0 {
		o.wake = workload.Soonest(o.wake, reconcile.Fallback)
	}
	return o, err
}

// behind tells whether a cache does not show yet what was written for a Job.
func (c *instance) behind(ctx context.Context, k key, m *memory) bool {
	resource, why, waited := m.Behind(time.Now(), k.namespace, c.store)
	if why == "" {
		c.metrics.waited(waited)
		return false
	}
	klog.FromContext(ctx).V(4).Info("Job waits for its caches", "job", k.Ref(), "because", why)
	if resource == jobsResource {
		c.metrics.waiting(batchv1.GroupName, jobsResource)
	} else {
		c.metrics.waiting("", podsResource)
	}
	return true
}

// syncGone is for a Job that the cache does not show: pods that it left behind would be
// held for ever. What the cache says is not enough to let a pod go uncounted.
func (c *instance) syncGone(ctx context.Context, k key, m *memory) (outcome, error) {
	pods, orphans := c.podsOf(k, nil)
	actions := job.Leftover(append(pods, orphans...), c.options.Limits.Pods)
	if len(actions) == 0 || !c.options.All && !m.mine {
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
	return outcome{wake: reconcile.Fallback}, c.act(ctx, nil, m, actions)
}

// syncLone is for a pod that we hold and that belongs to no Job.
func (c *instance) syncLone(ctx context.Context, k key) (outcome, error) {
	m := &memory{}
	m.Decided(time.Now())
	pod := c.pod(k.namespace, k.name)
	if pod == nil || pod.UID != k.uid || !job.Held(pod) || metav1.GetControllerOfNoCopy(pod) != nil || len(c.matchingJobs(pod)) > 0 || !c.options.All {
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
	return outcome{}, c.act(ctx, nil, m, job.Leftover([]*corev1.Pod{pod}, 1))
}

// liveJob reads a Job from the API; nil if there is none.
func (c *instance) liveJob(ctx context.Context, namespace, name string) (*batchv1.Job, error) {
	j, err := c.client.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return j, err
}

// livePod reads pods from the API: all that is made, changed or deleted here.
func (c *instance) livePod(ctx context.Context, namespace string) func(resource, name string) (metav1.Object, error) {
	return func(_, name string) (metav1.Object, error) {
		return c.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	}
}
