package simtest

import (
	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/inject"
)

// blockade is an outage or a partition of an actor, or its connection to another server. It also applies to an instance
// that starts meanwhile.
type blockade struct {
	actor    string // the name of the instance
	fault    fault.Fault
	hold     *hold
	revision int64 // of the caches of another server
}

// block begins a blockade. The request returns to the queue.
func (w *World) block(p *parked, d inject.Decision) {
	p.hits = d.Rest
	w.blockades = append(w.blockades, blockade{actor: p.from.name, fault: d.Fault, hold: w.newHold(d.Fault), revision: w.truth.Revision()})
	w.add(history.Step{Kind: history.Fault, Actor: p.from.name, Fault: d.Fault.String(), Note: inject.Beginning(d.Fault), Causes: []int{p.cause}})
	if inject.EndsStreams(d.Fault) {
		for _, s := range p.from.streams {
			if !s.ended || len(s.pending) > 0 {
				w.cutStream(s, d.Fault.String(), "the connection is lost")
				// One reflector after the other: they draw the jitter of their back-off from the same random numbers.
				w.waitBlocked()
				w.reseed()
			}
		}
	}
	w.requests = append(w.requests, p)
}

// blocked returns the decision of an outage or a partition about a request.
func (w *World) blocked(p *parked) (d inject.Decision, ok bool) {
	if p.from.actor == nil || p.deposed {
		return d, false
	}
	for _, b := range w.blockades {
		if b.actor != p.from.name || !w.held(b.hold) {
			continue
		}
		if d, ok = inject.Blocked(b.fault, history.IsWriteVerb(p.call.Verb)); ok {
			return d, true
		}
	}
	return d, false
}

// lagging returns the connection of an actor to another server whose watch caches are behind; nil if there is none.
func (w *World) lagging(actor string) *blockade {
	for n := range w.blockades {
		if b := &w.blockades[n]; b.actor == actor && inject.Lags(b.fault) && w.held(b.hold) {
			return b
		}
	}
	return nil
}
