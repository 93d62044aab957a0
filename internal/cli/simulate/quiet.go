package simulate

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Without -v the engine's warnings are shown at a limited rate: one bad stage can fail on a hundred thousand pods.
const (
	quietMost  = 5
	quietEvery = 10 * time.Second
)

// quiet passes a few records per interval, and none while the API server does not answer: connection reports that once, and
// then every request fails.
type quiet struct {
	slog.Handler
	away func() bool
	pace *pace
}

// pace is shared by the handlers that WithAttrs and WithGroup return.
type pace struct {
	mu      sync.Mutex
	begin   time.Time
	shown   int
	skipped int
}

func newQuiet(h slog.Handler, away func() bool) *quiet { return &quiet{h, away, &pace{}} }

// Handle implements slog.Handler.
func (q *quiet) Handle(ctx context.Context, r slog.Record) error {
	if q.away() {
		return nil
	}
	show, skipped := q.pace.step(r.Time)
	if !show {
		return nil
	}
	if skipped > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("not shown before (-v 1 shows all)", skipped))
	}
	return q.Handler.Handle(ctx, r)
}

func (p *pace) step(now time.Time) (show bool, skipped int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.begin) >= quietEvery {
		skipped = p.skipped
		p.begin, p.shown, p.skipped = now, 0, 0
	}
	if p.shown == quietMost {
		p.skipped++
		return false, 0
	}
	p.shown++
	return true, skipped
}

// WithAttrs implements slog.Handler.
func (q *quiet) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &quiet{q.Handler.WithAttrs(attrs), q.away, q.pace}
}

// WithGroup implements slog.Handler.
func (q *quiet) WithGroup(name string) slog.Handler {
	return &quiet{q.Handler.WithGroup(name), q.away, q.pace}
}
