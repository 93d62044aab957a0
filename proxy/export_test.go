package proxy

import "time"

// HoldAtMost is for tests that do not wait for Longest.
func (r *Run) HoldAtMost(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.longest = d
}
