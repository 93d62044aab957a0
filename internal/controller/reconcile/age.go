package reconcile

import (
	"fmt"
	"time"
)

// maxAge is how old a decision may be when one of its writes is sent. A process may be paused between the
// two (SIGSTOP, a suspended virtual machine, swapping); it then knows neither the current spec of the owner
// nor whether it is still the leader. With client-go's default lease (LeaseDuration 15 s, RenewDeadline
// 10 s), a leader that decides has renewed its lease at most 10 s before, and no other instance becomes
// leader within 15 s of that renewal: so a write that is sent within 5 s of its decision is sent before
// another instance starts. A request may still be delayed on its way; UID and resourceVersion preconditions
// and the names of created objects make that harmless.
//
// If the API server takes longer than this for a check, the leader cannot renew its lease either. A plan
// whose writes take longer is carried out in part, and the rest is decided again.
const maxAge = 5 * time.Second

// ErrTooOld is the error of a write that was not sent because its decision is older than maxAge. It wraps
// ErrStale.
var ErrTooOld = fmt.Errorf("the decision is older than %s: %w", maxAge, ErrStale)

// Decided records when a decision is made from the caches. Call it before the decision is checked against
// the API, so that the time of the check counts.
func (m *Memory) Decided(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.decided = now
}

// InTime returns an error that wraps ErrTooOld if the decision is older than maxAge. The
// monotonic clock does not run while a machine is suspended, and the wall clock may be set back, so the
// longer of the two times counts.
func (m *Memory) InTime(now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if age := max(now.Sub(m.decided), now.Round(0).Sub(m.decided.Round(0))); age > maxAge {
		return fmt.Errorf("decision of %s ago: %w", age.Round(time.Second), ErrTooOld)
	}
	return nil
}
