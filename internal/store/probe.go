package store

import (
	"context"
	"sync/atomic"
)

// Probe counts the events that a watch has to send, so that a scheduler outside of the store knows
// how many frames are still to come.
//
// A watch with a probe is slower than one without: its selector is applied during the write. In
// return [Probe.Owed] is exact as soon as a write has returned.
type Probe struct{ pushed, filtered, sent atomic.Int64 }

// Pushed returns how many notices the watch has received: changes, initial objects, bookmarks and
// the error that ends it.
func (p *Probe) Pushed() int64 { return p.pushed.Load() }

// Filtered returns how many of them the watch never sends: its selector drops them, or the watch
// was ended because its reader was too slow.
func (p *Probe) Filtered() int64 { return p.filtered.Load() }

// Sent returns how many events the watch has put into its result channel, which has a buffer.
func (p *Probe) Sent() int64 { return p.sent.Load() }

// Owed returns how many events the watch has to send in total, as far as is known now: a reader
// that has received that many has received everything. A stopped watch sends no more, whatever Owed
// returns.
func (p *Probe) Owed() int64 { return p.Pushed() - p.Filtered() }

type probeKey struct{}

// WithProbe returns a context in which [storage.Interface.Watch] counts with p. Use a probe for one
// watch only.
func WithProbe(ctx context.Context, p *Probe) context.Context {
	return context.WithValue(ctx, probeKey{}, p)
}

func probeFrom(ctx context.Context) *Probe {
	p, _ := ctx.Value(probeKey{}).(*Probe)
	return p
}
