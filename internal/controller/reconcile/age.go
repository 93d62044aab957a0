package reconcile

import (
	"fmt"
	"time"
)

// maxAge is how old a decision may be when a write that follows from it is sent. A process may
// stand still between the two (SIGSTOP, a suspended virtual machine, swapping), and then it
// knows neither what its owner asks for now nor whether it still leads. With client-go's
// default lease (LeaseDuration 15 s, RenewDeadline 10 s) a leader that decides has renewed its
// lease at most 10 s before, and no other instance leads before 15 s have passed since that renewal: so a
// write that is sent within 5 s of its decision is sent before another instance begins. A
// request may still be late on its way; UID and resourceVersion preconditions and the names of
// created objects are there for that.
//
// An API server that takes longer than this for a check lets a leader renew no lease either.
// Less than one plan's writes take this long to send: the rest is decided again.
const maxAge = 5 * time.Second

// Decided notes when a decision is made from the caches: before it is checked against the API,
// so that the time of the check counts.
func (m *Memory) Decided(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.decided = now
}

// InTime returns an error that wraps ErrStale if the decision is too old for a write to be sent.
// The monotonic clock does not run while a machine is suspended, and the wall clock may be set
// back: the longer of the two times counts.
func (m *Memory) InTime(now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if age := max(now.Sub(m.decided), now.Round(0).Sub(m.decided.Round(0))); age > maxAge {
		return fmt.Errorf("decision of %s ago: %w", age.Round(time.Second), ErrStale)
	}
	return nil
}
