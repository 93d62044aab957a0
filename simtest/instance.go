package simtest

import (
	"context"
	"slices"
	"time"

	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/history"
)

// Constructor builds and runs a controller: it creates its clients, informers and queues, and
// returns when ctx has ended and its goroutines have returned. It must not keep state in package
// variables: the state would survive a simulated restart, and not a real one.
type Constructor func(ctx context.Context, config *rest.Config) error

// actor is a controller by name, with its replicas.
type actor struct {
	name    string
	start   Constructor
	started int // the number of instances started, of all replicas

	// single: two instances never run at the same time, whatever the faults.
	single bool
}

// instance is one process of one replica of an actor: a restart creates a new instance.
type instance struct {
	world   *World
	actor   *actor // nil: not a controller, but the user or another user
	name    string // "job", or "job/1"
	n       int    // the number of the instance among those of its actor, from 1
	cancel  context.CancelFunc
	dead    bool // guarded by World.mu
	ended   bool // its constructor has returned; guarded by World.mu
	err     error
	last    int // the last step whose result reached the instance
	pause   *hold
	streams []*stream
	// delivered maps a resource to the newest revision that a watch has delivered.
	delivered map[string]int64

	// travel is the old revision as of which the lists of this instance are answered (fault
	// time-travel); 0: the current revision.
	travel int64
}

// config returns the client configuration of this instance. Unlike client-go's default it has no
// rate limit, which would only add virtual time.
func (i *instance) config() *rest.Config {
	return &rest.Config{
		Host:      "http://rehearse.invalid",
		Transport: i,
		QPS:       -1,
		UserAgent: i.user(),
	}
}

// user is the name that the API server authenticates: that of the controller, the same for all
// replicas and instances.
func (i *instance) user() string {
	if i.actor == nil {
		return i.name
	}
	return i.actor.name
}

// begin starts an instance of a replica.
func (w *World) begin(a *actor, name, because string) *instance {
	ctx, cancel := context.WithCancel(w.ctx)
	a.started++
	i := &instance{world: w, actor: a, name: name, n: a.started, cancel: cancel}
	step := history.Step{Kind: history.Start, Actor: name, Fault: because}
	if a.started > 1 {
		step.Note = "with empty caches"
	}
	i.last = w.add(step).N
	w.instances = append(w.instances, i)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				w.panicked(i.name, p)
			}
		}()
		err := a.start(ctx, i.config())
		w.mu.Lock()
		i.ended, i.err = true, err
		w.exits = append(w.exits, i)
		w.mu.Unlock()
		w.poke()
	}()
	return i
}

// kill terminates an instance: none of its later requests reaches the API, and nothing reaches it.
func (w *World) kill(i *instance) {
	i.cancel() // first, so that a goroutine that gets errDead sees that its context has ended
	if w.ctx.Err() == nil {
		w.waitBlocked() // see afterOthers
		w.admit()
	}
	fail := func(q *request) bool {
		if q.from == i {
			q.fail(errDead)
		}
		return q.from == i
	}
	w.mu.Lock()
	i.dead = true
	w.inbox = slices.DeleteFunc(w.inbox, fail)
	w.mu.Unlock()
	w.requests = slices.DeleteFunc(w.requests, func(p *parked) bool {
		dead := fail(p.request)
		if dead {
			w.notRecorded(p.call.Step(i.name))
		}
		return dead
	})
	w.answers = slices.DeleteFunc(w.answers, func(a *parkedAnswer) bool { return fail(a.request) })
	for _, s := range i.streams {
		w.dropPending(s)
		s.feed.cancel()
		s.body.end(errDead)
	}
	i.streams = nil
}

// notRecorded notes a request or an event that has arrived and gets no step: the next step names it.
func (w *World) notRecorded(s history.Step) { w.unrecorded = append(w.unrecorded, s.Arrived()) }

// fail answers a request with an error, unless it has been answered: several faults may apply to
// one request.
func (q *request) fail(err error) {
	select {
	case q.reply <- reply{err: err}:
	default:
	}
}

// restartDelay is how long a process that exited by itself takes to start again, the first time.
const restartDelay = time.Second

// crash terminates an instance and schedules the start of the next one.
func (w *World) crash(i *instance, because, note string, away *hold, travel int64) {
	s := w.add(history.Step{Kind: history.Crash, Actor: i.name, Fault: because, Note: note, Causes: []int{i.last}})
	w.kill(i)
	a, name := i.actor, i.name
	w.schedule(chain(name), away, s.N, func() {
		w.begin(a, name, "").travel = travel
	})
}

// reap restarts the instances whose constructors returned before they were terminated, like a
// process that exits (a manager that lost its lease).
func (w *World) reap() {
	w.mu.Lock()
	exits := w.exits
	w.exits = nil
	w.mu.Unlock()
	for _, i := range exits {
		if i.dead {
			continue
		}
		note := "its constructor returned nil"
		if i.err != nil {
			note = i.err.Error()
		}
		if len(w.plan.Faults) == 0 {
			w.fail("controllers run until their context ends", i.name+" ended though nothing went wrong: "+note)
			return
		}
		w.crash(i, "", "ended by itself: "+note, holdUntil(w.elapsed()+restartDelay<<min(i.n, 8)), 0)
	}
}
