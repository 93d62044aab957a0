package reconcile

import (
	"sync"
	"time"
)

// SmallOwner is the number of pods up to which each pod event of an owner gets a plan of its own.
const SmallOwner = 64

// pausePerPod is how long, per pod of a larger owner, events of its pods wait to share a plan. To list,
// sort and plan 10,000 pods takes about 10 ms; with this pause that happens at most 20 times a second.
const pausePerPod = 5 * time.Microsecond

// Memories holds one memory of type M for each owner. The zero value is empty.
type Memories[K comparable, M any] struct {
	mu    sync.Mutex
	all   map[K]*M
	sizes map[K]int // pods of owners that are not small
}

// Of returns the memory of an owner, and creates it if necessary.
func (m *Memories[K, M]) Of(k K) *M {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.all[k]
	if found == nil {
		found = new(M)
		if m.all == nil {
			m.all = map[K]*M{}
		}
		m.all[k] = found
	}
	return found
}

// Forget deletes the memory of an owner.
func (m *Memories[K, M]) Forget(k K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, k)
	delete(m.sizes, k)
}

// SetSize records how many pods an owner has.
func (m *Memories[K, M]) SetSize(k K, pods int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if pods <= SmallOwner {
		delete(m.sizes, k)
		return
	}
	if m.sizes == nil {
		m.sizes = map[K]int{}
	}
	m.sizes[k] = pods
}

// Pause returns how long an event of an owner's pod waits for others, to share a plan with them.
func (m *Memories[K, M]) Pause(k K) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Duration(m.sizes[k]) * pausePerPod
}
