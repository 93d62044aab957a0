package jobs

import (
	"sync"

	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
	"github.com/rehearse-k8s/rehearse/internal/workload/job"
)

// memory is what the controller remembers of one Job. Only one worker at a time syncs the Job, but its writes
// are concurrent.
type memory struct {
	reconcile.Memory

	mu      sync.Mutex // guards past.Taken
	past    job.Past
	managed bool // this process has reconciled the Job
	// generation of the Job at the last plan without surplus pods; creates is the metric label for why the
	// current plan creates pods.
	generation int64
	creates    string
}

// nameTaken records that another owner's pod has a name.
func (m *memory) nameTaken(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.past.Taken == nil {
		m.past.Taken = map[string]bool{}
	}
	m.past.Taken[name] = true
}

// memories holds the memory of each Job.
type memories struct {
	reconcile.Memories[key, memory]

	mu     sync.Mutex
	urgent map[key]bool
}

// Forget deletes the memory of a Job.
func (m *memories) Forget(k key) {
	m.Memories.Forget(k)
	m.setUrgent(k, false)
}

// setUrgent records whether a Job has finished pods that are not counted, or an end that is decided.
func (m *memories) setUrgent(k key, urgent bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !urgent {
		delete(m.urgent, k)
		return
	}
	if m.urgent == nil {
		m.urgent = map[key]bool{}
	}
	m.urgent[k] = true
}

func (m *memories) isUrgent(k key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.urgent[k]
}
