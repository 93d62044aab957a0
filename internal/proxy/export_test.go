package proxy

import "time"

// HoldAtMost is for tests that do not wait for Longest.
func (r *Run) HoldAtMost(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.longest = d
}

// Begins tells whether a write that has come this far would go on to the server.
func (d *Door) Begins() bool { return d.begins() }
