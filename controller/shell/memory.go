package shell

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/workload"
)

// Memory is what is remembered of the writes that were made for one owner, until the
// caches show them. Writes may be made at the same time. The zero value is empty.
type Memory struct {
	mu    sync.Mutex
	fresh workload.Freshness
	// touched are the objects that fresh waits for by UID.
	touched map[types.UID]Touched
}

// Touched is an object that was deleted, or let go, by us.
type Touched struct {
	Resource, Name string
	Deleted        bool
}

// Gone notes that an object was deleted, or let go.
func (m *Memory) Gone(uid types.UID, what Touched) {
	m.mu.Lock()
	defer m.mu.Unlock()
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

// Unsettled notes a write of which nobody knows whether it had effect, by the name of what
// was to be made; Settled that a read has told since.
func (m *Memory) Unsettled(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fresh.Unsettled(name)
}

// Settled ends what Unsettled began.
func (m *Memory) Settled(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fresh.Settled(name)
}

// Open are the names of unsettled writes, in no order.
func (m *Memory) Open() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fresh.Open()
}

// Behind says what the caches do not show yet, or "", and of which resource. still tells
// whether a cache shows an object as if nothing had been done to it.
func (m *Memory) Behind(reached func(resource string) string, still func(types.UID, Touched) bool) (resource, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	resource, why = m.fresh.Behind(reached, func(uid types.UID) bool { return still(uid, m.touched[uid]) })
	if why == "" {
		m.touched = nil
	}
	return resource, why
}
