package stages

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// renewing runs a leaseBook with its dispatcher and workers in virtual time; renew simulates the API.
func renewing(ctx context.Context, b *leaseTable, workers int, renew func(nodeLease) renewal) *sync.WaitGroup {
	wake := make(chan struct{}, 1)
	b.wake = func() { notify(wake) }
	due := make(chan types.UID)
	var running sync.WaitGroup
	running.Go(func() { dispatch(ctx, clock.RealClock{}, b.pop, wake, due) })
	for range workers {
		running.Go(func() {
			for uid := range due {
				if l, ok := b.begin(uid); ok {
					b.done(time.Now(), uid, renew(l))
				}
			}
		})
	}
	return &running
}

func TestRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes, duration, run = 1000, 40 * time.Second, 10 * time.Minute
		b := newLeaseTable(1, duration)
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		last, count := map[types.UID]time.Time{}, 0
		var longest time.Duration
		busiest := map[int64]int{}
		running := renewing(ctx, b, 4, func(l nodeLease) renewal {
			time.Sleep(time.Millisecond) // the time until the API answers
			mu.Lock()
			defer mu.Unlock()
			if at, ok := last[l.uid]; ok {
				longest = max(longest, time.Since(at))
			}
			last[l.uid] = time.Now()
			count++
			busiest[time.Now().Unix()]++
			return renewal{lease: &coordinationv1.Lease{}}
		})
		for i := range nodes {
			uid := types.UID(fmt.Sprint("uid-", i))
			b.add(time.Now(), uid, fmt.Sprint("node-", i))
			b.add(time.Now(), uid, fmt.Sprint("node-", i)) // delivered twice
		}
		begun := time.Now()
		time.Sleep(run)
		cancel()
		running.Wait()
		if most := time.Duration(float64(b.interval()) * (1 + leaseJitter)); longest > most+time.Second {
			t.Errorf("%s between two renewals of one node, want at most %s and a bit", longest, most)
		}
		if want := nodes * int(run/b.interval()); count < want*95/100 || count > want*110/100 {
			t.Errorf("%d renewals, want about %d", count, want)
		}
		for second, n := range busiest {
			if second > begun.Unix()+1 && n > 2*nodes/10 {
				t.Errorf("%d renewals in one second: they are not spread", n)
			}
		}
	})
}

// TestRenewalsGoInRounds checks that an idle process wakes up once for many renewals.
func TestRenewalsGoInRounds(t *testing.T) {
	const nodes, run = 500, 10 * time.Minute
	b := newLeaseTable(1, 40*time.Second)
	round := time.Duration(leaseRound * float64(b.interval()))
	for i := range nodes {
		b.add(start, types.UID(fmt.Sprint("uid-", i)), fmt.Sprint("node-", i))
	}
	last, wakes, renewals := map[types.UID]time.Time{}, 0, 0
	for now := start; now.Before(start.Add(run)); wakes++ {
		for {
			uid, next, ok := b.pop(now)
			if !ok {
				now = next
				break
			}
			if before, ok := last[uid]; ok && now.Sub(before) > time.Duration(float64(b.interval())*(1+leaseJitter))+round {
				t.Fatalf("%s between two renewals of %s", now.Sub(before), uid)
			}
			last[uid] = now
			renewals++
			b.done(now, uid, renewal{lease: &coordinationv1.Lease{}})
		}
	}
	if most := int(run/round) + 2; wakes > most || renewals < nodes*55 {
		t.Errorf("woken %d times for %d renewals, want at most %d times", wakes, renewals, most)
	}
}

// TestLeasesSpreadAfterStall: leases that a server delayed together are not due together afterwards. Planned from their answers, all of them
// would be due in the same round.
func TestLeasesSpreadAfterStall(t *testing.T) {
	const nodes = 500
	b := newLeaseTable(1, 40*time.Second)
	for i := range nodes {
		b.add(start, types.UID(fmt.Sprint("uid-", i)), fmt.Sprint("node-", i))
	}
	// renew renews what is due at a time, and returns how many leases that were, and when the next one is due.
	renew := func(due, answered time.Time) (renewed int, next time.Time) {
		var uids []types.UID
		for {
			uid, at, ok := b.pop(due)
			if !ok {
				next = at
				break
			}
			uids = append(uids, uid)
		}
		for _, uid := range uids {
			b.done(answered, uid, renewal{lease: &coordinationv1.Lease{}})
		}
		return len(uids), next
	}
	now := start
	for now.Before(start.Add(time.Minute)) {
		_, next := renew(now, now.Add(20*time.Millisecond))
		now = next
	}
	answers := now.Add(4 * time.Second) // meanwhile, the server answers nothing
	stalled, now := renew(answers, answers)
	if stalled < nodes/3 {
		t.Fatalf("%d leases were delayed", stalled)
	}
	for now.Before(answers.Add(2 * b.interval())) {
		together, next := renew(now, now.Add(20*time.Millisecond))
		if together > nodes/10 {
			t.Errorf("%d leases are due together %s after the stall", together, now.Sub(answers))
		}
		now = next
	}
}

// TestNodeRecreatedWhileRenewing checks a node that is deleted and created again while its lease is being
// renewed. In KWOK this left two entries in the heap; one was renewed in a loop and all other nodes starved.
func TestNodeRecreatedWhileRenewing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLeaseTable(1, 40*time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		counts := map[string]int{}
		running := renewing(ctx, b, 4, func(l nodeLease) renewal {
			time.Sleep(5 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			counts[l.node]++
			return renewal{lease: &coordinationv1.Lease{}}
		})
		b.add(time.Now(), "n2", "n2")
		for i := range 20 {
			b.add(time.Now(), "n1", "n1")
			time.Sleep(time.Millisecond)
			b.remove("n1")
			if i%2 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		b.add(time.Now(), "n1", "n1")
		time.Sleep(100 * time.Second)
		cancel()
		running.Wait()
		if counts["n1"] > 20+12 || counts["n2"] < 10 || counts["n2"] > 12 {
			t.Errorf("renewals: %v", counts)
		}
	})
}

func TestLeaseOutcomes(t *testing.T) {
	b := newLeaseTable(1, 40*time.Second)
	now := start
	b.addExisting([]coordinationv1.Lease{{ObjectMeta: metav1.ObjectMeta{Name: "n1", ResourceVersion: "3"}}})
	b.add(now, "u1", "n1")
	take := func() nodeLease {
		t.Helper()
		uid, _, ok := b.pop(now)
		if !ok {
			t.Fatal("nothing is due")
		}
		l, ok := b.begin(uid)
		if !ok {
			t.Fatal("the lease is not known")
		}
		return l
	}
	next := func() time.Duration { _, at, _ := b.pop(now); return at.Sub(now) }

	if l := take(); l.lease == nil || l.lease.ResourceVersion != "3" || l.reread {
		t.Fatalf("the existing lease is not used: %+v", l)
	}
	b.done(now, "u1", renewal{err: errors.New("conflict"), conflict: true})
	if l := take(); !l.reread || l.lease != nil {
		t.Fatalf("after a conflict the lease is not read at once: %+v", l)
	}
	b.done(now, "u1", renewal{err: errors.New("conflict"), conflict: true})
	if wait := next(); wait <= 0 || wait > leaseBackoffFirst*2 {
		t.Errorf("a second conflict waits %s", wait)
	}
	now = now.Add(time.Second)
	take()
	b.done(now, "u1", renewal{err: errors.New("down"), retryAfter: 3 * time.Second})
	if wait := next(); wait != 3*time.Second {
		t.Errorf("Retry-After is ignored: %s", wait)
	}
	for range 20 {
		now = now.Add(10 * time.Second)
		take()
		b.done(now, "u1", renewal{err: errors.New("down")})
		if wait := next(); wait > leaseBackoffMost {
			t.Errorf("waits %s", wait)
		}
	}
	now = now.Add(10 * time.Second)
	take()
	if lag := b.done(now, "u1", renewal{lease: &coordinationv1.Lease{}}); lag <= 0 {
		t.Errorf("lag %s", lag)
	}
	if held, oldest := b.lateness(now.Add(time.Second)); held != 1 || oldest != time.Second {
		t.Errorf("%d leases, oldest %s", held, oldest)
	}
	now = now.Add(time.Minute)
	take()
	b.remove("u1")
	b.done(now, "u1", renewal{lease: &coordinationv1.Lease{}})
	if held, _ := b.lateness(now); held != 0 || b.due.len() != 0 {
		t.Error("a removed lease exists again")
	}
}

func TestRenewedLease(t *testing.T) {
	old := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name: "n", ResourceVersion: "7", OwnerReferences: []metav1.OwnerReference{{Kind: "Node", Name: "n", UID: "earlier"}},
	}}
	l := renewedLease(&nodeLease{uid: "u", node: "n", lease: old}, 40*time.Second, start)
	if l.ResourceVersion != "7" || len(l.OwnerReferences) != 1 || l.OwnerReferences[0].UID != "u" {
		t.Errorf("got %+v", l.ObjectMeta)
	}
	if *l.Spec.HolderIdentity != "n" || *l.Spec.LeaseDurationSeconds != 40 || !l.Spec.RenewTime.Equal(&metav1.MicroTime{Time: start}) {
		t.Errorf("got %+v", l.Spec)
	}
	if old.OwnerReferences[0].UID != "earlier" {
		t.Error("the known lease was changed")
	}
	if l := renewedLease(&nodeLease{uid: "u", node: "n"}, time.Minute, start); l.Namespace != "kube-node-lease" || l.ResourceVersion != "" {
		t.Errorf("got %+v", l.ObjectMeta)
	}
}

// setBack returns a time after the wall clock was set back; the monotonic clock is unchanged. The fields are
// those of time.Time with a monotonic clock reading: seconds since 1885 above 30 bits of nanoseconds.
func setBack(t time.Time, by time.Duration) time.Time {
	fields := (*struct {
		wall uint64
		ext  int64
		loc  *time.Location
	})(unsafe.Pointer(&t))
	fields.wall -= uint64(by/time.Second) << 30
	return t
}

// TestLeaseAfterClockIsSetBack checks that a lease is renewed after its interval although the wall clock was
// set back by an hour.
func TestLeaseAfterClockIsSetBack(t *testing.T) {
	b := newLeaseTable(1, 40*time.Second)
	now := time.Now()
	if back := setBack(now, time.Hour); back.Sub(now) != 0 || back.Round(0).Sub(now.Round(0)) != -time.Hour {
		t.Fatalf("%s set back is %s", now, back)
	}
	b.add(now, "uid", "node")
	for i := range 5 {
		at := now.Add(time.Duration(i) * time.Minute)
		if i > 1 {
			at = setBack(at, time.Hour)
		}
		uid, next, ok := b.pop(at)
		if !ok {
			t.Fatalf("after %d minutes the lease is due in %s", i, next.Sub(at))
		}
		if lag := b.done(at, uid, renewal{lease: &coordinationv1.Lease{}}); lag < 0 || lag > time.Minute {
			t.Errorf("after %d minutes the renewal is %s late", i, lag)
		}
	}
}
