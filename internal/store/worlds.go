package store

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/clock"

	"github.com/rehearse-k8s/rehearse/internal/intern"
)

const (
	defaultHistoryBytes     = 64 << 20
	defaultHistoryAge       = 5 * time.Minute
	defaultProgressInterval = 5 * time.Second

	// queueLimit is the maximum number of changes in the queue of a watch before the watch is ended
	// with 410 Expired. The initial notices do not count.
	queueLimit = 100_000
)

// Options configure a [Worlds]. The zero value is ready for use.
type Options struct {
	// Clock determines when objects expire and how old the history is. The default is the real
	// clock. If it can create timers (clock.Clock), [Worlds.Run] uses them, otherwise timers of the
	// real clock.
	Clock clock.PassiveClock

	// HistoryBytes limits the history of the process's world, in bytes of memory: replaced and
	// deleted values with the objects decoded from them (an estimate), plus a constant for each
	// change. The default is 64 MiB.
	HistoryBytes int64

	// HistoryAge limits the age of the history of the process's world. The default is five minutes,
	// as in a kube-apiserver. The tighter of both limits applies.
	HistoryAge time.Duration

	// ProgressInterval is how often [Worlds.Run] sends the current revision to the watches that
	// requested progress. The default is five seconds. The watch cache does not wait for it; see
	// GetCurrentResourceVersion.
	ProgressInterval time.Duration

	// ShareParts lets decoded objects share the memory of their equal parts (package intern). That costs a few microseconds for each
	// write, and halves the memory of many similar objects.
	ShareParts bool
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

// Worlds contains the worlds of all runs of one process. Its methods are safe for concurrent use.
type Worlds struct {
	options    Options
	queueLimit int           // tests lower it
	wake       chan struct{} // wakes Run because an expiry is due earlier

	directories directories
	samples     intern.Samples

	mu        sync.RWMutex
	byRun     map[string]*World
	published map[schema.GroupResource]storage.Interface
}

// New returns an empty Worlds.
func New(o Options) *Worlds {
	return &Worlds{
		options:    o.withDefaults(),
		queueLimit: queueLimit,
		wake:       make(chan struct{}, 1),
		byRun:      map[string]*World{},
		published:  map[schema.GroupResource]storage.Interface{},
	}
}

type runKey struct{}

// WithRun returns a context whose storage calls go to the world named run.
func WithRun(ctx context.Context, run string) context.Context {
	return context.WithValue(ctx, runKey{}, run)
}

// RunFrom returns the name of the world that ctx selects: "", the process's world, unless [WithRun]
// was called.
func RunFrom(ctx context.Context) string {
	run, _ := ctx.Value(runKey{}).(string)
	return run
}

// WithValuesOf returns ctx with what from selects in the store: the world ([WithRun]) and the probe ([WithProbe]).
func WithValuesOf(ctx, from context.Context) context.Context {
	if run := RunFrom(from); run != "" {
		ctx = WithRun(ctx, run)
	}
	if p := probeFrom(from); p != nil {
		ctx = WithProbe(ctx, p)
	}
	return ctx
}

// World returns the world of a run. The first call creates it, empty and at revision 1, like a new
// etcd.
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

// Drop ends the watches of a run and removes its world. A later call under the same name creates a
// new, empty world, so stop the run's callers first. Drop does nothing if the run does not exist.
func (ws *Worlds) Drop(run string) {
	ws.mu.Lock()
	w := ws.byRun[run]
	delete(ws.byRun, run)
	ws.mu.Unlock()
	if w != nil {
		w.close()
	}
}

// Run does the background work of the process's world until ctx ends: it deletes expired objects,
// drops history that is too old even if there are no writes, and sends the current revision to
// progress watches. Worlds of other runs have no background work: nothing
// expires in them, and a run is too short for a compaction.
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
		next, pending := w.Expire(now)
		if !pending || next.After(progress) {
			next = progress
		}
		// The timer's channel may still contain an earlier value; then the loop iterates once more
		// without effect.
		timer.Reset(max(next.Sub(now), 0))
	}
}
