package simtest

import (
	"context"
	"slices"
	"time"

	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/history"
)

// Constructor makes and runs a controller: it builds everything anew (clients,
// informers, queues) and returns when ctx has ended and its goroutines are over. A
// restart is honest only if it keeps nothing in variables of the package.
type Constructor func(ctx context.Context, config *rest.Config) error

// actor is a controller by name, with its replicas.
type actor struct {
	name  string
	start Constructor
	made  int // instances, of all replicas

	// single: there are never two at a time, whatever goes wrong.
	single bool
}

// instance is one life of one replica of an actor.
type instance struct {
	world   *World
	actor   *actor // nil: the user and others that are no controllers
	name    string // "job", or "job/1"
	n       int    // the how manyth instance of the actor
	cancel  context.CancelFunc
	dead    bool // guarded by the world's lock
	ended   bool // its constructor has returned; guarded by the world's lock
	err     error
	last    int // the last step that reached it
	pause   *hold
	streams []*stream
	// delivered is the newest revision that watches of a resource have delivered.
	delivered map[string]int64

	// travel is the revision that lists of a time traveller are answered at; 0:
	// the present.
	travel int64
}

// config is a client of this instance, as client-go makes it by default but for the
// rate limit: it would only stretch virtual time.
func (i *instance) config() *rest.Config {
	return &rest.Config{
		Host:      "http://rehearse.invalid",
		Transport: i,
		QPS:       -1,
		UserAgent: i.user(),
	}
}

// user is whom the API sees: the controller, whichever replica or instance of it.
func (i *instance) user() string {
	if i.actor == nil {
		return i.name
	}
	return i.actor.name
}

// begin starts an instance of a replica.
func (w *World) begin(a *actor, name, because string) *instance {
	ctx, cancel := context.WithCancel(w.ctx)
	a.made++
	i := &instance{world: w, actor: a, name: name, n: a.made, cancel: cancel}
	step := history.Step{Kind: history.Start, Actor: name, Fault: because}
	if a.made > 1 {
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

// kill ends an instance: nothing that it does from now on reaches anybody.
func (w *World) kill(i *instance) {
	i.cancel() // first, so that whoever hears of the end knows it for one
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
	w.requests = slices.DeleteFunc(w.requests, func(p *parked) bool { return fail(p.request) })
	w.answers = slices.DeleteFunc(w.answers, func(a *parkedAnswer) bool { return fail(a.request) })
	for _, s := range i.streams {
		s.feed.cancel()
		s.body.end(errDead)
	}
	i.streams = nil
}

// fail answers a request with an error, unless it has an answer already: a request
// may be met by several faults.
func (q *request) fail(err error) {
	select {
	case q.reply <- reply{err: err}:
	default:
	}
}

// restartDelay is how long a process that ended is away.
const restartDelay = time.Second

// crash ends an instance and lets the next one begin.
func (w *World) crash(i *instance, because, note string, away *hold, travel int64) {
	s := w.add(history.Step{Kind: history.Crash, Actor: i.name, Fault: because, Note: note, Causes: []int{i.last}})
	w.kill(i)
	a, name := i.actor, i.name
	w.schedule(away, s.N, func() {
		w.begin(a, name, "").travel = travel
	})
}

// reap looks after constructors that returned though nobody ended them, as a process
// does that gives up (a manager that lost its lease): it is started again.
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
