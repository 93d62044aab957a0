package simulate

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/internal/controller/stages"
)

// Election configures how replicas elect the one that writes.
type Election struct {
	// Namespace and Name of the lease.
	Namespace, Name string
	// LeaseDuration is how long standbys wait after the last renewal, RenewDeadline how long a leader retries a renewal
	// before it stops writing, and RetryPeriod the time between attempts.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// Validate rejects durations with which two replicas could lead at the same time, or none could lead.
func (e *Election) Validate() error {
	switch {
	case e.RetryPeriod <= 0:
		return fmt.Errorf("--leader-elect-retry-period %s: must be positive", e.RetryPeriod)
	case float64(e.RenewDeadline) <= leaderelection.JitterFactor*float64(e.RetryPeriod):
		return fmt.Errorf("--leader-elect-renew-deadline %s: must be more than %.1f times --leader-elect-retry-period (%s)", e.RenewDeadline, leaderelection.JitterFactor, e.RetryPeriod)
	case e.LeaseDuration <= e.RenewDeadline:
		return fmt.Errorf("--leader-elect-lease-duration %s: must be longer than --leader-elect-renew-deadline (%s)", e.LeaseDuration, e.RenewDeadline)
	case e.LeaseDuration < time.Second:
		return fmt.Errorf("--leader-elect-lease-duration %s: must be 1s or more", e.LeaseDuration)
	}
	return nil
}

// ForShard is the election among the replicas of one shard, with a lease of its own.
func (e Election) ForShard(s stages.Shard) *Election {
	if s.Count > 1 {
		e.Name = fmt.Sprintf("%s-%d-of-%d", e.Name, s.Index, s.Count)
	}
	return &e
}

// String is namespace/name of the lease.
func (e *Election) String() string { return e.Namespace + "/" + e.Name }

// identity is unique per replica, also for two replicas on one machine.
func identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "_" + string(uuid.NewUUID())
}

// candidate takes part in one election until it loses or stops.
type candidate struct {
	elector *leaderelection.LeaderElector
	// lead is closed when the candidate has won.
	lead chan struct{}
	// lost is closed when the candidate no longer leads.
	lost chan struct{}

	election *Election
	client   coordinationclient.LeasesGetter
	as       string
}

// newCandidate prepares a candidate; elector.Run starts it.
func newCandidate(config *rest.Config, e *Election, as string) (*candidate, error) {
	// A request that hangs must leave time for another renewal.
	own := rest.CopyConfig(config)
	own.Timeout = e.RenewDeadline / 2
	client, err := coordinationclient.NewForConfig(own)
	if err != nil {
		return nil, err
	}
	c := &candidate{lead: make(chan struct{}), lost: make(chan struct{}), election: e, client: client, as: as}
	c.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name}, Client: client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: as},
		},
		LeaseDuration: e.LeaseDuration, RenewDeadline: e.RenewDeadline, RetryPeriod: e.RetryPeriod,
		ReleaseOnCancel: true, Name: e.String(),
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(c.lead) },
			OnStoppedLeading: func() { close(c.lost) },
		},
	})
	return c, err
}

// release releases the lease, if this candidate still holds it. The elector tries that too, but only once: a canceled
// renewal may reach the server in between, and then the next replica would wait until the lease expires.
func (c *candidate) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.election.RenewDeadline)
	defer cancel()
	leases := c.client.Leases(c.election.Namespace)
	_ = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		lease, err := leases.Get(ctx, c.election.Name, metav1.GetOptions{})
		if err != nil || ptr.Deref(lease.Spec.HolderIdentity, "") != c.as {
			return err
		}
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = ptr.To(""), ptr.To[int32](1)
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
}

// errNotLeading rejects a write that was decided before the lease was lost.
var errNotLeading = fmt.Errorf("this replica does not lead: %w", context.Canceled)

// guard forwards writes only while the lease is certainly held. The elector notices a loss late: after a process was
// suspended and resumed, and while it tries to release the lease.
type guard struct {
	elector *leaderelection.LeaderElector
	margin  time.Duration // from the renew deadline to when others may take over
}

// wrap wraps a transport.
func (g *guard) wrap(next http.RoundTripper) http.RoundTripper {
	return transport{next, func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet && !g.holds() {
			if r.Body != nil {
				_ = r.Body.Close()
			}
			return nil, errNotLeading
		}
		return next.RoundTrip(r)
	}}
}

// holds is true from winning the lease to the renew deadline after its last
// renewal.
func (g *guard) holds() bool {
	return g.elector.IsLeader() && g.elector.Check(-g.margin) == nil
}
