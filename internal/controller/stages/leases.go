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

// leaseJitter is how far a renewal may fall from its interval, as a fraction of
// it; as for a kubelet (pkg/kubelet/kubelet.go, nodeLeaseRenewIntervalFraction
// is LeaseDuration/4, component-helpers' lease controller adds 4 %).
const leaseJitter = 0.04

// leaseRound is the time between two moments at which renewals are sent, as a
// fraction of their interval: those of 5,000 nodes leave 250 at a time, twice a second. A
// process that wakes up for each of them alone spends twice the CPU on it.
const leaseRound = 0.05

// leaseBackoffFirst and leaseBackoffMost bound the wait after a renewal that
// failed.
const (
	leaseBackoffFirst = 200 * time.Millisecond
	leaseBackoffMost  = 7 * time.Second
)

// leaseBook is what is known of the leases of managed nodes and when each is to
// be renewed. Like table it sends nothing and reads no clock.
type leaseBook struct {
	seed     uint64
	duration time.Duration
	wake     func()

	mu     sync.Mutex
	nodes  map[types.UID]*nodeLease
	primed map[string]*coordinationv1.Lease // found at the start, by node name
	due    *agenda[types.UID]
}

// nodeLease is the lease of one node.
type nodeLease struct {
	uid  types.UID
	node string
	// lease is the newest version known; nil asks to create it.
	lease *coordinationv1.Lease
	// reread asks for a live read before the next write: another client wrote.
	reread   bool
	busy     bool
	renewals uint64
	failures int
	due      time.Time
	renewed  time.Time
}

func newLeaseBook(seed uint64, duration time.Duration) *leaseBook {
	return &leaseBook{
		seed: seed, duration: duration, wake: func() {},
		nodes: map[types.UID]*nodeLease{}, primed: map[string]*coordinationv1.Lease{},
		due: newAgenda[types.UID](),
	}
}

// interval is the time between renewals.
func (b *leaseBook) interval() time.Duration { return b.duration / 4 }

// prime notes the leases found at the start, so that they are renewed rather
// than created, also for nodes that are known already.
func (b *leaseBook) prime(leases []coordinationv1.Lease) {
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

// hold starts to keep the lease of a node, at once; it does nothing for one
// that is kept already.
func (b *leaseBook) hold(now time.Time, uid types.UID, node string) {
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

// release stops to keep the lease of a node.
func (b *leaseBook) release(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.nodes, uid)
	b.due.remove(uid)
}

// pop hands out the lease that is due first, as table.pop does.
func (b *leaseBook) pop(now time.Time) (uid types.UID, next time.Time, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	uid, next, ok = b.due.pop(now)
	if ok {
		b.nodes[uid].busy = true
	}
	return uid, next, ok
}

// begin returns a copy of what is known of the lease, for the worker.
func (b *leaseBook) begin(uid types.UID) (nodeLease, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.nodes[uid]
	if l == nil {
		return nodeLease{}, false
	}
	return *l, true
}

// renewal is what became of a renewal.
type renewal struct {
	// lease is the version the API has now; nil if it does not exist or it is
	// not known.
	lease *coordinationv1.Lease
	// err is why it was not renewed; nil when it was.
	err error
	// conflict: the version written on was old, or the lease is not there.
	conflict bool
	// retryAfter is the least wait the API asked for.
	retryAfter time.Duration
}

// done takes in a renewal and plans the next. It returns how long after it was
// due the lease was renewed.
func (b *leaseBook) done(now time.Time, uid types.UID, r renewal) (lag time.Duration) {
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
		l.due = b.round(now.Add(b.spacing(l)))
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

// spacing is the time to the next renewal. The first ones are spread over a
// whole interval, so that nodes made together do not renew together.
func (b *leaseBook) spacing(l *nodeLease) time.Duration {
	u := stage.Draw(b.seed, l.uid, "lease", l.renewals)
	if l.renewals == 1 {
		return time.Duration(float64(b.interval()) * u)
	}
	return time.Duration(float64(b.interval()) * (1 + leaseJitter*u))
}

// round moves a time to the next of the rounds. It keeps the monotonic clock reading, which
// Truncate takes away: else a lease would not be due for an hour after the wall clock was set
// back by an hour.
func (b *leaseBook) round(at time.Time) time.Time {
	every := time.Duration(float64(b.interval()) * leaseRound)
	wall := at.Round(0)
	if into := wall.Sub(wall.Truncate(every)); into > 0 {
		return at.Add(every - into)
	}
	return at
}

func (b *leaseBook) backoff(l *nodeLease) time.Duration {
	wait := leaseBackoffMost
	if l.failures < 8 {
		wait = min(leaseBackoffFirst<<(l.failures-1), leaseBackoffMost)
	}
	return time.Duration(float64(wait) * (0.5 + 0.5*stage.Draw(b.seed, l.uid, "lease backoff", uint64(l.failures))))
}

// lateness is how many leases are kept, and how long ago the one renewed
// longest ago was; a lease never renewed counts from nothing.
func (b *leaseBook) lateness(now time.Time) (held int, oldest time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.nodes {
		if !l.renewed.IsZero() {
			oldest = max(oldest, now.Sub(l.renewed))
		}
	}
	return len(b.nodes), oldest
}

// renewedLease is the lease to write: a new one, or the one known with the time
// moved. The owner is the node with this UID; a lease left behind by an earlier
// node of that name is taken over.
func renewedLease(l *nodeLease, duration time.Duration, now time.Time) *coordinationv1.Lease {
	out := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: l.node, Namespace: corev1.NamespaceNodeLease}}
	if l.lease != nil {
		*out = *l.lease // what is changed below is replaced, not written to
	}
	out.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: l.node, UID: l.uid}}
	out.Spec.HolderIdentity = &l.node
	out.Spec.LeaseDurationSeconds = ptr.To(int32(duration / time.Second))
	out.Spec.RenewTime = &metav1.MicroTime{Time: now}
	return out
}
