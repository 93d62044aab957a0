package jobs

import (
	"sync"

	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
	"github.com/rehearse-k8s/rehearse/internal/workload/job"
)

// memory is what is remembered of one Job. One worker at a time has it, but its
// writes are made at the same time.
type memory struct {
	reconcile.Memory

	mu   sync.Mutex // of past.Taken
	past job.Past
	mine bool // the Job was looked after here
	// generation of the Job at the last plan that found no pod too many, and why the
	// last one makes pods.
	generation int64
	creates    string
}

func (m *memory) taken(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.past.Taken == nil {
		m.past.Taken = map[string]bool{}
	}
	m.past.Taken[name] = true
}

// memories are those of all Jobs.
type memories struct {
	reconcile.Memories[key, memory]

	mu   sync.Mutex
	open map[key]bool
}

// Forget forgets a Job.
func (m *memories) Forget(k key) {
	m.Memories.Forget(k)
	m.isOpen(k, false)
}

// isOpen notes whether a Job has pods that have finished and are not counted, or an end
// that is decided; urgent tells of it.
func (m *memories) isOpen(k key, open bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !open {
		delete(m.open, k)
		return
	}
	if m.open == nil {
		m.open = map[key]bool{}
	}
	m.open[k] = true
}

func (m *memories) urgent(k key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open[k]
}
