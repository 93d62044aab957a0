package reconcile

import (
	"sync"
	"time"
)

// SmallOwner is how many pods an owner has whose pods' events each get a plan.
const SmallOwner = 64

// pausePerPod: events of pods of a big owner share a plan. Finding, sorting and planning
// for 10,000 pods takes some 10 ms; with this pause it is done at most 20 times a second.
const pausePerPod = 5 * time.Microsecond

// Memories are what is remembered of each of many owners. The zero value is empty.
type Memories[K comparable, M any] struct {
	mu    sync.Mutex
	all   map[K]*M
	sizes map[K]int // of big owners, in pods
}

// Of is what is remembered of an owner.
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

// Forget forgets an owner.
func (m *Memories[K, M]) Forget(k K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, k)
	delete(m.sizes, k)
}

// Sized notes how many pods an owner has.
func (m *Memories[K, M]) Sized(k K, pods int) {
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

// Pause is how long events of an owner's pods wait for others to share a plan with.
func (m *Memories[K, M]) Pause(k K) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Duration(m.sizes[k]) * pausePerPod
}
