package store

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	defaultHistoryBytes     = 64 << 20
	defaultHistoryAge       = 5 * time.Minute
	defaultProgressInterval = 5 * time.Second

	// queueLimit is how many changes a watch may lie behind before it is ended
	// with 410 Expired. What it was given at its start does not count.
	queueLimit = 100_000
)

// Options are the settings of a [Worlds]. The zero value is ready for use.
type Options struct {
	// Clock decides when an object's time to live has expired and how old history
	// is. The default is the real clock. If it can make timers (clock.Clock),
	// [Worlds.Run] sleeps by it, otherwise by the real clock.
	Clock clock.PassiveClock

	// HistoryBytes bounds what the process's world keeps of the past, in bytes
	// of memory: replaced and deleted values with the objects decoded from them,
	// by estimate, plus a little for each change. The default is 64 MiB.
	HistoryBytes int64

	// HistoryAge bounds how long the process's world keeps the past. The default
	// is five minutes, as a kube-apiserver has it. The tighter bound wins.
	HistoryAge time.Duration

	// ProgressInterval is how often [Worlds.Run] sends the watches that asked for
	// progress which revision they have reached. The default is five seconds.
	// The watch cache does not wait for it; see GetCurrentResourceVersion.
	ProgressInterval time.Duration
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.HistoryBytes <= 0 {
		o.HistoryBytes = defaultHistoryBytes
	}
	if o.HistoryAge <= 0 {
		o.HistoryAge = defaultHistoryAge
	}
	if o.ProgressInterval <= 0 {
		o.ProgressInterval = defaultProgressInterval
	}
	return o
}

// Worlds holds the worlds of all the runs of one process. Its methods may be
// called from any goroutine.
type Worlds struct {
	options    Options
	queueLimit int           // lowered by tests
	wake       chan struct{} // wakes Run because something is due earlier

	directories directories

	mu    sync.RWMutex
	byRun map[string]*World
}

// New makes an empty Worlds.
func New(o Options) *Worlds {
	return &Worlds{
		options:    o.withDefaults(),
		queueLimit: queueLimit,
		wake:       make(chan struct{}, 1),
		byRun:      map[string]*World{},
	}
}

type runKey struct{}

// WithRun returns a context whose storage calls go to the world named run.
func WithRun(ctx context.Context, run string) context.Context {
	return context.WithValue(ctx, runKey{}, run)
}

// RunFrom returns the name of the world that ctx speaks of: "", the process's
// own, unless [WithRun] said otherwise.
func RunFrom(ctx context.Context) string {
	run, _ := ctx.Value(runKey{}).(string)
	return run
}

// World returns the world of a run. It is made when it is first asked for, empty
// and at revision 1, as a new etcd is.
func (ws *Worlds) World(run string) *World {
	ws.mu.RLock()
	w := ws.byRun[run]
	ws.mu.RUnlock()
	if w != nil {
		return w
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w = ws.byRun[run]; w == nil {
		w = newWorld(ws, run == "")
		ws.byRun[run] = w
	}
	return w
}

// Drop ends the watches of a run and forgets its world. A call that comes later
// under the same name finds a new, empty world, so let the run's callers end
// first. To drop a run that does not exist is no error.
func (ws *Worlds) Drop(run string) {
	ws.mu.Lock()
	w := ws.byRun[run]
	delete(ws.byRun, run)
	ws.mu.Unlock()
	if w != nil {
		w.close()
	}
}

// Run does the background work of the process's world until ctx ends: it removes
// objects whose time to live has ended, lets go of history that has grown too old
// while nobody wrote, and tells progress watches the current revision. Worlds of
// other runs have no background: their owner calls [World.Expire] and
// [World.Compact].
func (ws *Worlds) Run(ctx context.Context) {
	timers, ok := ws.options.Clock.(clock.Clock)
	if !ok {
		timers = clock.RealClock{}
	}
	timer := timers.NewTimer(0)
	defer timer.Stop()
	progress := ws.options.Clock.Now().Add(ws.options.ProgressInterval)
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C():
		case <-ws.wake:
		}
		w, now := ws.World(""), ws.options.Clock.Now()
		if !now.Before(progress) {
			w.requestProgress()
			progress = now.Add(ws.options.ProgressInterval)
		}
		w.forgetOld(now)
		next, any := w.Expire(now)
		if !any || next.After(progress) {
			next = progress
		}
		// A second timer value may be waiting from before; the loop then comes
		// round once more for nothing, which is harmless.
		timer.Reset(max(next.Sub(now), 0))
	}
}
