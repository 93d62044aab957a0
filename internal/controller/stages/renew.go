package stages

import (
	"context"
	"fmt"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// leaseWorkers is how many renewals may run concurrently. Leases have their own workers, so that no burst of
// pods delays them. Concurrent renewals share a connection, which writes and reads many at once.
const leaseWorkers = 64

// leasesPath is the API path of the nodes' leases.
const (
	leaseVersion, leaseKind = "coordination.k8s.io/v1", "Lease"
	leasesPath              = "/apis/" + leaseVersion + "/namespaces/" + corev1.NamespaceNodeLease + "/leases"
)

// primeLeases reads the existing leases once, so that after a restart each is renewed with one write. If the
// read fails, each lease is read when its write conflicts.
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
	e.leases.addExisting(list.Items)
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

// renew writes one lease: one PUT if the known version is the newest.
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
	write := call{method: http.MethodPut, path: leasesPath + "/" + l.node}
	if l.reread {
		live, err := e.sendLease(ctx, call{method: http.MethodGet, path: write.path})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return renewal{err: err}
		default:
			l.lease = live
		}
	}
	if l.lease == nil {
		write.method, write.path = http.MethodPost, leasesPath
	}
	var err error
	if write.body, err = encode(leaseVersion, leaseKind, renewedLease(l, e.options.LeaseDuration, e.options.Clock.Now())); err != nil {
		return renewal{err: err}
	}
	lease, err := e.sendLease(ctx, write)
	switch {
	case err == nil:
		return renewal{lease: lease}
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		return renewal{err: err, conflict: true}
	}
	return renewal{err: err}
}

// sendLease sends a request whose answer is a lease.
func (e *StageEngine) sendLease(ctx context.Context, c call) (*coordinationv1.Lease, error) {
	answer, err := e.direct.send(ctx, c)
	if err != nil {
		return nil, err
	}
	lease := &coordinationv1.Lease{}
	ok, err := decodeInto(answer, leaseVersion, leaseKind, lease)
	if err == nil && !ok {
		err = fmt.Errorf("the answer to the %s of %s is not a lease", c.method, c.path)
	}
	return lease, err
}
