package stages

import (
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/stage"
)

// leaseJitter is the maximal deviation of a renewal from its interval, as a fraction of it; the same as for a
// kubelet (pkg/kubelet/kubelet.go, nodeLeaseRenewIntervalFraction is LeaseDuration/4, component-helpers' lease
// controller adds 4 %).
const leaseJitter = 0.04

// leaseRound is the time between two rounds of renewals, as a fraction of their interval: for 5,000 nodes, 250
// are sent together, twice a second. A process that wakes up for each renewal alone uses twice the CPU.
const leaseRound = 0.05

// leaseBackoffFirst and leaseBackoffMost bound the wait after a failed renewal.
const (
	leaseBackoffFirst = 200 * time.Millisecond
	leaseBackoffMost  = 7 * time.Second
)

// leaseTable contains the leases of managed nodes and when each is renewed. Like table it sends no requests and
// reads no clock.
type leaseTable struct {
	seed     uint64
	duration time.Duration
	wake     func()

	mu     sync.Mutex
	nodes  map[types.UID]*nodeLease
	primed map[string]*coordinationv1.Lease // the leases that existed at the start, by node name
	due    *agenda[types.UID]
}

// nodeLease is the lease of one node.
type nodeLease struct {
	uid  types.UID
	node string
	// lease is the newest known version; nil if it must be created.
	lease *coordinationv1.Lease
	// reread: the lease must be read before the next write, because another client has written it.
	reread   bool
	busy     bool
	renewals uint64
	failures int
	due      time.Time
	renewed  time.Time
}

func newLeaseTable(seed uint64, duration time.Duration) *leaseTable {
	return &leaseTable{
		seed: seed, duration: duration, wake: func() {},
		nodes: map[types.UID]*nodeLease{}, primed: map[string]*coordinationv1.Lease{},
		due: newAgenda[types.UID](),
	}
}

// interval returns the time between renewals.
func (b *leaseTable) interval() time.Duration { return b.duration / 4 }

// addExisting stores the leases that exist at the start, so that they are renewed and not created, also for nodes
// that are already known.
func (b *leaseTable) addExisting(leases []coordinationv1.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range leases {
		leases[i].ManagedFields = nil
		b.primed[leases[i].Name] = &leases[i]
	}
	for _, l := range b.nodes {
		if l.lease == nil {
			l.lease = b.primed[l.node]
			delete(b.primed, l.node)
		}
	}
}

// add adds the lease of a node, which is due at once. It does nothing if the node has been added already.
func (b *leaseTable) add(now time.Time, uid types.UID, node string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.nodes[uid] != nil {
		return
	}
	l := &nodeLease{uid: uid, node: node, lease: b.primed[node], due: now}
	delete(b.primed, node)
	b.nodes[uid] = l
	b.due.set(uid, now)
	b.wake()
}

// remove removes the lease of a node.
func (b *leaseTable) remove(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.nodes, uid)
	b.due.remove(uid)
}

// pop returns the lease that is due first, as table.pop does.
func (b *leaseTable) pop(now time.Time) (uid types.UID, next time.Time, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	uid, next, ok = b.due.pop(now)
	if ok {
		b.nodes[uid].busy = true
	}
	return uid, next, ok
}

// begin returns a copy of a lease, for the worker that renews it.
func (b *leaseTable) begin(uid types.UID) (nodeLease, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.nodes[uid]
	if l == nil {
		return nodeLease{}, false
	}
	return *l, true
}

// renewal is the result of a renewal.
type renewal struct {
	// lease is the version that the API has now; nil if it does not exist or is unknown.
	lease *coordinationv1.Lease
	// err is why the lease was not renewed; nil if it was.
	err error
	// conflict: the write was based on an old version, or the lease does not exist.
	conflict bool
	// retryAfter is the minimal wait that the API has requested.
	retryAfter time.Duration
}

// done records the result of a renewal and plans the next one. It returns how long after its due time the
// lease was renewed.
func (b *leaseTable) done(now time.Time, uid types.UID, r renewal) (lag time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.nodes[uid]
	if l == nil || !l.busy {
		return 0
	}
	l.busy = false
	switch {
	case r.err == nil:
		lag = now.Sub(l.due)
		l.lease, l.reread, l.failures, l.renewed = r.lease, false, 0, now
		l.renewals++
		l.due = b.round(b.planned(now, l).Add(b.spacing(l)))
	case r.conflict:
		l.lease, l.reread = nil, true
		l.failures++
		l.due = now.Add(max(b.backoff(l), r.retryAfter))
		if l.failures == 1 {
			l.due = now
		}
	default:
		l.failures++
		l.due = now.Add(max(b.backoff(l), r.retryAfter))
	}
	b.due.set(uid, l.due)
	b.wake()
	return lag
}

// planned returns the time from which the next renewal is planned: when this one was due. Otherwise leases that a slow server delayed would stay
// together, and delay each other again in each interval. A renewal that is very late counts from now.
func (b *leaseTable) planned(now time.Time, l *nodeLease) time.Time {
	if now.Sub(l.due) > b.interval()/2 {
		return now
	}
	return l.due
}

// spacing returns the time to the next renewal. The first ones are spread over a whole interval, so that nodes
// that were created together do not renew together.
func (b *leaseTable) spacing(l *nodeLease) time.Duration {
	u := stage.Draw(b.seed, l.uid, "lease", l.renewals)
	if l.renewals == 1 {
		return time.Duration(float64(b.interval()) * u)
	}
	return time.Duration(float64(b.interval()) * (1 + leaseJitter*u))
}

// round moves a time to the next round. It keeps the monotonic clock reading, which Truncate would remove:
// otherwise a lease would not be due for an hour after the wall clock is set back by an hour.
func (b *leaseTable) round(at time.Time) time.Time {
	every := time.Duration(float64(b.interval()) * leaseRound)
	wall := at.Round(0)
	if into := wall.Sub(wall.Truncate(every)); into > 0 {
		return at.Add(every - into)
	}
	return at
}

func (b *leaseTable) backoff(l *nodeLease) time.Duration {
	wait := leaseBackoffMost
	if l.failures < 8 {
		wait = min(leaseBackoffFirst<<(l.failures-1), leaseBackoffMost)
	}
	return time.Duration(float64(wait) * (0.5 + 0.5*stage.Draw(b.seed, l.uid, "lease backoff", uint64(l.failures))))
}

// lateness returns how many leases there are, and the age of the oldest renewal; a lease that was never
// renewed does not count.
func (b *leaseTable) lateness(now time.Time) (held int, oldest time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.nodes {
		if !l.renewed.IsZero() {
			oldest = max(oldest, now.Sub(l.renewed))
		}
	}
	return len(b.nodes), oldest
}

// renewedLease returns the lease to write: a new one, or the known one with a new time. Its owner is the node
// with this UID; a lease of an earlier node of that name gets the new owner.
func renewedLease(l *nodeLease, duration time.Duration, now time.Time) *coordinationv1.Lease {
	out := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: l.node, Namespace: corev1.NamespaceNodeLease}}
	if l.lease != nil {
		*out = *l.lease // the fields that change below are replaced, so that the known lease is not modified
	}
	out.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: l.node, UID: l.uid}}
	out.Spec.HolderIdentity = &l.node
	out.Spec.LeaseDurationSeconds = ptr.To(int32(duration / time.Second))
	out.Spec.RenewTime = &metav1.MicroTime{Time: now}
	return out
}
