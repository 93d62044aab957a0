package simtest

import (
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/inject"
)

// serveOld completes the decision about a list that permits an older state.
func (w *World) serveOld(p *parked, d inject.Decision) inject.Decision {
	c := &p.call
	if !c.Older || p.from.actor == nil {
		return d
	}
	r := inject.ListRead{
		Actor: p.from.name, Resource: c.Resource, Namespace: c.Namespace, Watch: c.Watch, ResourceVersion: c.FromRevision,
		Steps: func() []history.Step { return w.record.Steps }, Newest: w.truth.Revision(),
	}
	if b := w.lagging(p.from.name); b != nil {
		r.Other, r.OtherRevision = b.fault, b.revision
	}
	d = w.oldLists.Decide(d, r)
	p.asOf = d.AsOf
	return d
}
