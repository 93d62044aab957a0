package proxy

import "time"

// HoldAtMost is for tests that do not wait for Longest.
func (r *Run) HoldAtMost(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.longest = d
}

// BeginWrite reports whether a write that has come this far would be sent to the server.
func (l *Listener) BeginWrite() bool { return l.beginWrite() }
