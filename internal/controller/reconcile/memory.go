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

// Memory is what is remembered of the writes that were made for one owner, until the
// caches show them. Writes may be made at the same time. The zero value is empty.
type Memory struct {
	mu    sync.Mutex
	fresh workload.Freshness
	// touched are the objects that fresh waits for by UID.
	touched map[types.UID]Touched
	// unknown are the objects of writes whose answers were lost, by resource/name; one that
	// was to be made has no UID.
	unknown map[string]types.UID

	since   time.Time // a cache is behind since then
	decided time.Time // when what is being written was decided
}

// Touched is an object that was deleted, or let go, by us, or that turned out not to be
// there any more.
type Touched struct {
	Resource, Name string
	Until          Until
	// Finalizer is what Released has taken away.
	Finalizer string
}

// Until is what a cache has to show of an object that was touched.
type Until int

const (
	// Terminating: a delete was answered. It is being deleted, or is not there.
	Terminating Until = iota
	// Released: it does not bear the finalizer any more, or is not there.
	Released
	// Absent: a read or a write was answered NotFound, so the object is not there.
	Absent
)

// shown tells whether what a cache shows of the object is from before it was touched.
func (t *Touched) shown(uid types.UID, o metav1.Object) bool {
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

// Gone notes that an object was deleted, or let go, or is not there.
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

// Wrote notes the revision that the answer to a write of a resource carried.
func (m *Memory) Wrote(resource, revision string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fresh.Wrote(resource, revision)
}

// Unsettled notes a write of which nobody knows whether it had effect: of an object that
// was to be made, with no UID, or of one that was to be changed or deleted. Were that
// forgotten, another object might be chosen in the place of this one, and both be gone.
func (m *Memory) Unsettled(resource, name string, uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unknown == nil {
		m.unknown = map[string]types.UID{}
	}
	m.unknown[resource+"/"+name] = uid
	m.fresh.Unsettled(resource + "/" + name)
}

// Settle finds out what became of unsettled writes: read asks the API for an object. After
// an error, which is returned, the rest of them stay unsettled.
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

// open are the unsettled writes, in an order that is the same each time.
func (m *Memory) open() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	open := m.fresh.Open()
	slices.Sort(open)
	return open
}

// settled takes in what a read has told of an unsettled write.
func (m *Memory) settled(open string, absent Touched, o metav1.Object, there bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	uid := m.unknown[open]
	if there {
		m.fresh.Wrote(absent.Resource, o.GetResourceVersion())
	}
	if uid != "" && (!there || o.GetUID() != uid) {
		m.gone(uid, absent)
	}
	delete(m.unknown, open)
	m.fresh.Settled(open)
}

// Behind says what the caches do not show yet of the owner's namespace, or "", and of which
// resource. When they show everything again, waited is how long that has taken.
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
		return err == nil && t.shown(uid, o)
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
