package store

import (
	"context"
	"sync/atomic"
)

// Probe counts what a watch owes its reader, so that a scheduler outside knows how
// many frames are still to come.
//
// A watch with a probe is slower than one without: its selector is applied inside
// the write. In return [Probe.Owed] is exact, to the frame, from the moment a
// write returns.
type Probe struct{ pushed, filtered, sent atomic.Int64 }

// Pushed is how many events were given to the watch: changes, initial objects,
// bookmarks and the error that ends it.
func (p *Probe) Pushed() int64 { return p.pushed.Load() }

// Filtered is how many of them the watch will never send: its selector drops them,
// or the watch fell too far behind and was ended.
func (p *Probe) Filtered() int64 { return p.filtered.Load() }

// Sent is how many the watch has put into its result channel, which has a buffer.
func (p *Probe) Sent() int64 { return p.sent.Load() }

// Owed is how many events the watch has to send in its whole life, as far as is
// known now: a reader who has taken that many has seen everything. A watch that was
// stopped sends no more, whatever it owed.
func (p *Probe) Owed() int64 { return p.Pushed() - p.Filtered() }

type probeKey struct{}

// WithProbe returns a context in which [storage.Interface.Watch] counts into p. Use
// a probe for one watch.
func WithProbe(ctx context.Context, p *Probe) context.Context {
	return context.WithValue(ctx, probeKey{}, p)
}

func probeFrom(ctx context.Context) *Probe {
	p, _ := ctx.Value(probeKey{}).(*Probe)
	return p
}
