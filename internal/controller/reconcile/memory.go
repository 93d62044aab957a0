package reconcile

import (
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// Memory records the writes for one owner until the caches show them. Its methods may be called
// concurrently. The zero value is empty.
type Memory struct {
	mu    sync.Mutex
	fresh workload.Freshness
	// touched has the objects that fresh waits for by UID.
	touched map[types.UID]Touched
	// unknown has the objects of writes whose answers were lost, by resource/name. The UID is empty for a
	// create.
	unknown map[string]types.UID

	since   time.Time // when a cache was first seen to be behind
	decided time.Time // when the current decision was made
}

// Touched is an object that this controller deleted or removed its finalizer from, or that does not exist
// any more.
type Touched struct {
	Resource, Name string
	Until          Until
	// Finalizer is the finalizer that was removed, for Released.
	Finalizer string
}

// Until is what a cache must show of an object before it is fresh.
type Until int

const (
	// Terminating: a delete succeeded, so the object is terminating or absent.
	Terminating Until = iota
	// Released: the object does not have the finalizer any more, or is absent.
	Released
	// Absent: a read or a write returned NotFound.
	Absent
)

// isOutdated reports whether the state that a cache shows is from before the object was touched.
func (t *Touched) isOutdated(uid types.UID, o metav1.Object) bool {
	if o.GetUID() != uid {
		return false
	}
	switch t.Until {
	case Terminating:
		return o.GetDeletionTimestamp() == nil
	case Released:
		return slices.Contains(o.GetFinalizers(), t.Finalizer)
	}
	return true
}

// Gone records that an object was deleted, released or found to be absent.
func (m *Memory) Gone(uid types.UID, what Touched) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone(uid, what)
}

func (m *Memory) gone(uid types.UID, what Touched) {
	if m.touched == nil {
		m.touched = map[types.UID]Touched{}
	}
	m.touched[uid] = what
	m.fresh.Gone(uid)
}

// Wrote records the revision in the answer to a write of a resource.
func (m *Memory) Wrote(resource, revision string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fresh.Wrote(resource, revision)
}

// Unsettled records a write whose answer was lost, so that it is unknown whether it had effect: a create (no
// UID), or a change or delete of an object. Without this record the next plan might choose another object to
// delete, and both would be deleted.
func (m *Memory) Unsettled(resource, name string, uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unknown == nil {
		m.unknown = map[string]types.UID{}
	}
	m.unknown[resource+"/"+name] = uid
	m.fresh.Unsettled(resource + "/" + name)
}

// Settle finds out what happened to unsettled writes: read gets an object from the API. If read fails, Settle
// returns its error, and the remaining writes stay unsettled.
func (m *Memory) Settle(read func(resource, name string) (metav1.Object, error)) error {
	for _, open := range m.open() {
		resource, name, _ := strings.Cut(open, "/")
		o, err := read(resource, name)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		m.settled(open, Touched{Resource: resource, Name: name, Until: Absent}, o, err == nil)
	}
	return nil
}

// open returns the unsettled writes, sorted.
func (m *Memory) open() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	open := m.fresh.Open()
	slices.Sort(open)
	return open
}

// settled records what a read returned about an unsettled write.
func (m *Memory) settled(open string, absent Touched, o metav1.Object, exists bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	uid := m.unknown[open]
	if exists {
		m.fresh.Wrote(absent.Resource, o.GetResourceVersion())
	}
	if uid != "" && (!exists || o.GetUID() != uid) {
		m.gone(uid, absent)
	}
	delete(m.unknown, open)
	m.fresh.Settled(open)
}

// Behind returns which of the recorded writes the caches do not show yet, in words, and of which resource;
// why is "" if they show all of them, and waited is then how long that took. Objects are looked up in the
// namespace of the owner.
func (m *Memory) Behind(now time.Time, namespace string, caches func(resource string) cache.Store) (resource, why string, waited time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	reached := func(resource string) string { return caches(resource).LastStoreSyncResourceVersion() }
	resource, why = m.fresh.Behind(reached, func(uid types.UID) bool {
		t := m.touched[uid]
		obj, found, err := caches(t.Resource).GetByKey(namespace + "/" + t.Name)
		if err != nil || !found {
			return false
		}
		o, err := meta.Accessor(obj)
		return err == nil && t.isOutdated(uid, o)
	})
	switch {
	case why == "":
		m.touched = nil
		if !m.since.IsZero() {
			waited = now.Sub(m.since)
		}
		m.since = time.Time{}
	case m.since.IsZero():
		m.since = now
	}
	return resource, why, waited
}
