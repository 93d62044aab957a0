package proxy

import (
	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/inject"
)

// blockade is an outage or a partition of a client, or its connection to another server.
type blockade struct {
	fault    fault.Fault
	hold     *hold
	revision int64 // of the caches of another server
}

// connection is what the watches of a client have in common: they end together.
type connection struct {
	lost chan struct{} // closed when the client loses the connection
	// because is the fault that ends it. It is set before lost is closed.
	because string
}

// block begins a blockade of the client.
func (q *request) block(f fault.Fault) {
	q.run.Add(history.Step{Kind: history.Fault, Actor: q.listener.name, Fault: f.String(), Note: inject.Beginning(f)})
	q.listener.block(q.run, blockade{f, q.run.hold(f, q.listener.name, 0), q.run.Revision()})
}

func (l *Listener) block(r *Run, b blockade) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enter(r)
	l.blockades = append(l.blockades, b)
	if c := l.connection; c != nil && inject.EndsStreams(b.fault) {
		l.connection = nil
		c.because = b.fault.String()
		close(c.lost)
	}
}

// blocked returns the decision of an outage or a partition about a request.
func (l *Listener) blocked(r *Run, write bool) (d inject.Decision, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enter(r)
	for _, b := range l.blockades {
		if b.hold.over() {
			continue
		}
		if d, ok = inject.Blocked(b.fault, write); ok {
			return d, true
		}
	}
	return d, false
}

// currentConnection returns the connection of the client.
func (l *Listener) currentConnection() *connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.connection == nil {
		l.connection = &connection{lost: make(chan struct{})}
	}
	return l.connection
}

// isLost reports whether the client has lost the connection.
func (c *connection) isLost() bool {
	select {
	case <-c.lost:
		return true
	default:
		return false
	}
}

// lagging returns the connection of the client to another server whose watch caches are behind; nil if there is none.
func (l *Listener) lagging(r *Run) *blockade {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enter(r)
	for n := range l.blockades {
		if b := &l.blockades[n]; inject.Lags(b.fault) && !b.hold.over() {
			return b
		}
	}
	return nil
}
