package simtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/inject"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/internal/store"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// Object is anything that Kubernetes stores.
type Object interface {
	metav1.Object
	kruntime.Object
}

// World is one run as the test function sees it: the API, the controllers and the clock. Only the
// goroutine of the test function may call its methods. A method that fails ends that goroutine, and
// the run fails with the reason.
type World struct {
	server *server
	config *settings
	run    string
	store  *store.World
	plan   sim.Plan
	final  verdict.State
	// periodic are the periodic writes of a run without faults.
	periodic []verdict.Periodic
	// laterStates are the states of a run that is observed after its end, until observeUntil.
	laterStates  []verdict.State
	laterHash    uint64
	observeUntil time.Duration
	broken       error // the world could not be built
	faults       *fault.Plan
	chance       chance
	truth        *verdict.Objects
	record       *history.Run
	start        time.Time
	clock        outsideClock

	ctx       context.Context
	cancel    context.CancelFunc
	arrived   chan struct{} // a goroutine has something for the schedule; room for one
	released  chan struct{} // closed when the run is over and every goroutine is blocked
	user      *instance
	otherUser *instance // runs the requests of fault kinds such as delete and label

	// mu guards the fields that the goroutines of controllers share with the schedule. No goroutine
	// blocks while it holds mu.
	mu           sync.Mutex
	inbox        []*request
	runErr       error
	byTest       bool // whether the test caused runErr
	exits        []*instance
	waiters      []waiter
	actors       map[string]*actor
	toStart      []func() // start the controllers that the test has added
	waiting      *waiting
	testReturned bool

	// The schedule's goroutine owns the fields below.
	instances  []*instance
	requests   []*parked
	answers    []*parkedAnswer
	later      []*later
	streams    int
	writes     int
	written    verdict.Writes
	activity   *verdict.Activity // the writes without bookkeeping
	wrote      map[int64]int     // revision -> the step that wrote it
	counts     map[string]int
	expiries   inject.Expiries
	blockades  []blockade // outages, partitions and connections to other servers
	oldLists   inject.OldLists
	userWrites []userWrite       // what the user has written
	recreating []*deletion       // objects that faults have deleted, and that are created again
	collection inject.Collection // deletes the dependents of objects that faults have deleted
	priorities priorities
	unrecorded []history.Arrival // what has arrived and gets no step
	lastTime   bool              // whether the last step was a passage of time
	lastPass   int               // the last step that was a passage of time
	lastPause  int               // the last of these before which no actor had anything to do
	lastFault  time.Duration     // when a fault last took effect
	bookmarks  time.Duration     // when the server sends the next bookmarks
	checkedAt  int64
	over       bool
	ending     time.Duration // when the test function had returned and nothing could happen
	heldFor    time.Duration // for how long in total faults delayed something
	always     []invariant.Invariant
	eventually []verdict.Eventually
	sometimes  []invariant.Invariant
	seen       map[string]bool
	exempt     []string // eventual invariants that runs without faults violate
	reports    []string // observations that violate no invariant
	restricted bool     // whether the test called Faults
	except     []fault.Fault
	policy     verdict.Policy
	nodes      int // how many nodes the test created with Nodes
	patterns   []fault.Fault
	// overlapping are the patterns of the controllers that may run twice.
	overlapping []fault.Fault
}

// waiting is the state of the test function's goroutine while it waits for the schedule (calm is
// negative), or until no client has written for the duration calm.
type waiting struct {
	calm  time.Duration
	since time.Duration
	wake  chan struct{}
}

// fatal ends the goroutine of the test function and fails the run.
func (w *World) fatal(format string, args ...any) {
	w.mu.Lock()
	if w.runErr == nil && w.ctx.Err() == nil { // a run that is over cannot fail
		w.runErr, w.byTest = fmt.Errorf(format, args...), true
	}
	w.mu.Unlock()
	runtime.Goexit()
}

// Fatalf ends the test function and fails the run, as t.Fatalf does for a test.
func (w *World) Fatalf(format string, args ...any) { w.fatal(format, args...) }

// Controller starts a client-go controller. After a crash its constructor is called again. Faults
// and reports use the name.
func (w *World) Controller(name string, c Constructor) { w.Replicas(name, 1, c) }

// Replicas starts n replicas of one controller, "name/0", "name/1", …, which should elect a leader.
func (w *World) Replicas(name string, n int, c Constructor) {
	w.addActor(&actor{name: name, start: c}, n)
}

func (w *World) addActor(a *actor, n int) {
	name, c := a.name, a.start
	if name == "" || strings.ContainsAny(name, " =/") || name == userName || name == otherUserName {
		w.fatal("controller name %q: want a word without blanks, = and /, other than %s and %s", name, userName, otherUserName)
	}
	if n < 1 || c == nil {
		w.fatal("controller %s: want at least one replica and a constructor", name)
	}
	w.mu.Lock()
	taken := w.actors[name] != nil
	if !taken {
		w.actors[name] = a
		for i := range n {
			replica := name
			if n > 1 {
				replica = name + "/" + strconv.Itoa(i)
			}
			w.toStart = append(w.toStart, func() { w.begin(a, replica, "") })
		}
	}
	w.mu.Unlock()
	if taken {
		w.fatal("controller %s: the name is taken", name)
	}
	w.turn()
}

// turn waits until the schedule has accepted what the test function did.
func (w *World) turn() { w.wait(&waiting{calm: -1}) }

func (w *World) wait(x *waiting) {
	x.wake, x.since = make(chan struct{}), w.elapsed()
	w.mu.Lock()
	w.waiting = x
	w.mu.Unlock()
	w.poke()
	select {
	case <-x.wake:
	case <-w.ctx.Done():
		runtime.Goexit()
	}
}

// Faults restricts the faults to those that match these patterns. Without it, the search may inject
// every fault of the run's level. Without arguments it allows no fault.
func (w *World) Faults(patterns ...fault.Fault) {
	for _, p := range patterns {
		if err := p.Check(); err != nil {
			w.fatal("%v", err)
		}
	}
	w.restricted, w.patterns = true, append(w.patterns, patterns...)
}

// Always adds invariants that must hold after every step from now on.
func (w *World) Always(all ...invariant.Invariant) { w.always = append(w.always, all...) }

// Eventually adds an invariant that must hold at the end. It has the duration within, in virtual
// time, from when the test function has returned and the faults have ended.
func (w *World) Eventually(within time.Duration, i invariant.Invariant) {
	w.eventually = append(w.eventually, verdict.Eventually{Invariant: i, Within: within})
}

// Sometimes adds invariants that must each hold at least once in at least one run: this shows that
// the test reaches the situation it is written for.
func (w *World) Sometimes(all ...invariant.Invariant) {
	w.sometimes = append(w.sometimes, all...)
	for _, i := range all {
		w.seen[i.Name] = false
	}
}

// Advance lets d of virtual time pass; the schedule continues meanwhile.
func (w *World) Advance(d time.Duration) {
	if d <= 0 {
		w.fatal("Advance(%s): want a time above zero", d)
	}
	select {
	case <-time.After(d):
	case <-w.ctx.Done():
		runtime.Goexit()
	}
	w.turn()
}

// Settle waits until no client has written for ten seconds of virtual time. Writes of Leases and
// Events do not count, and neither do periodic writes, such as heartbeats.
func (w *World) Settle() { w.wait(&waiting{calm: settleCalm}) }

const settleCalm = 10 * time.Second

// Now returns the virtual time.
func (w *World) Now() time.Time { return time.Now() }

// Config returns the client configuration of the test function. The schedule orders its requests
// like those of a controller, but no fault applies to them.
func (w *World) Config() *rest.Config { return w.user.config() }

// View returns the objects that the API stores.
func (w *World) View() invariant.View {
	return w.truth
}

// elapsed is the virtual time since the run began.
func (w *World) elapsed() time.Duration { return time.Since(w.start) }

func (w *World) poke() {
	select {
	case w.arrived <- struct{}{}:
	default:
	}
}

// park puts a request into the inbox of the schedule. It returns false if the request's instance is
// dead.
func (w *World) park(q *request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if q.from.dead {
		return false
	}
	w.inbox = append(w.inbox, q)
	w.poke()
	return true
}

// withdraw marks a request whose client has given up.
func (w *World) withdraw(q *request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	q.gone = true
}

func (w *World) panicked(who string, what any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runErr == nil {
		w.runErr = fmt.Errorf("%s panicked: %v", who, what)
	}
	w.poke()
}

const (
	userName      = history.User
	otherUserName = history.OtherUser
)

var errTestExited = errors.New("the test function ended its goroutine before it returned; it must not call t.FailNow or runtime.Goexit: use w.Fatalf")
