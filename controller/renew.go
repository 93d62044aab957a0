package controller

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// leaseWorkers is how many renewals may be under way at once. They have workers
// of their own: no burst of pods may make a node miss its lease.
const leaseWorkers = 16

// primeLeases reads the leases there are, once, so that after a restart each is
// renewed with one write. When the read fails each lease is found the slow way.
func (e *StageEngine) primeLeases(ctx context.Context) {
	if e.options.LeaseDuration < 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	list, err := e.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, metav1.ListOptions{})
	if err != nil {
		e.options.Logger.Debug("leases not listed", "error", err)
		return
	}
	e.leases.prime(list.Items)
}

func (e *StageEngine) startLeases(ctx context.Context, begin func(func())) {
	if e.options.LeaseDuration < 0 {
		return
	}
	due := make(chan types.UID)
	begin(func() { dispatch(ctx, e.options.Clock, e.leases.pop, e.leaseWake, due) })
	for range leaseWorkers {
		begin(func() {
			for uid := range due {
				e.renew(ctx, uid)
			}
		})
	}
}

// renew writes one lease: one PUT when the version known is the newest.
func (e *StageEngine) renew(ctx context.Context, uid types.UID) {
	l, ok := e.leases.begin(uid)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, min(writeTimeout, e.leases.interval()))
	defer cancel()
	r := e.writeLease(ctx, &l)
	if r.err == nil {
		e.counters.renewals.Add(1)
		r.lease.ManagedFields = nil
	} else {
		e.counters.leaseFailures.Add(1)
		if seconds, ok := apierrors.SuggestsClientDelay(r.err); ok {
			r.retryAfter = time.Duration(seconds) * time.Second
		}
		e.options.Logger.Debug("lease not renewed, will be tried again", "node", l.node, "error", r.err)
	}
	lag := e.leases.done(e.options.Clock.Now(), uid, r)
	e.counters.leaseLate(lag)
	e.options.Metrics.renewed(min(lag, e.options.Clock.Since(e.playing)), r.err)
}

func (e *StageEngine) writeLease(ctx context.Context, l *nodeLease) renewal {
	client := e.client.CoordinationV1().RESTClient()
	if l.reread {
		live := &coordinationv1.Lease{}
		switch err := leaseRequest(client.Get()).Name(l.node).Do(ctx).Into(live); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return renewal{err: err}
		default:
			l.lease = live
		}
	}
	next := renewedLease(l, e.options.LeaseDuration, e.options.Clock.Now())
	request := leaseRequest(client.Put()).Name(l.node)
	if l.lease == nil {
		request = leaseRequest(client.Post())
	}
	answer := &coordinationv1.Lease{}
	err := request.Body(next).Do(ctx).Into(answer)
	switch {
	case err == nil:
		return renewal{lease: answer}
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		return renewal{err: err, conflict: true}
	}
	return renewal{err: err}
}

func leaseRequest(r *rest.Request) *rest.Request {
	return r.MaxRetries(0).Namespace(corev1.NamespaceNodeLease).Resource("leases")
}
