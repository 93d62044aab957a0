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

// World is one run as its story sees it: the API, the controllers, the clock. Its
// methods are for the goroutine that the story runs on. What cannot be done ends
// the story and the run fails with the reason.
type World struct {
	server *server
	config *settings
	run    string
	store  *store.World
	plan   sim.Plan
	final  verdict.State
	broken error // the world could not be built
	faults *fault.Plan
	truth  *verdict.Objects
	record *history.Run
	start  time.Time
	clock  outsideClock

	ctx     context.Context
	cancel  context.CancelFunc
	arrived chan struct{} // a goroutine has something for the schedule; room for one
	user    *instance
	someone *instance // who interferes

	// mu guards what the goroutines of controllers and the schedule share. Nobody
	// holds it while waiting.
	mu        sync.Mutex
	inbox     []*request
	mishap    error
	mistake   bool // the mishap is the story's own
	exits     []*instance
	waiters   []waiter
	actors    map[string]*actor
	newborn   []func() // controllers that the story added
	waiting   *waiting
	storyOver bool

	// What follows is the schedule's own.
	instances         []*instance
	requests          []*parked
	answers           []*parkedAnswer
	later             []*later
	streams           int
	writes            int
	lastWrite         time.Duration
	wrote             map[int64]int // revision -> the step that made it
	counts            map[string]int
	expiries          inject.Expiries
	lastTime          bool          // the last step was the clock's
	lastPass          int           // the last step of the clock
	bookmarks         time.Duration // when watches are sent bookmarks next
	checkedAt         int64
	over              bool
	ending            time.Duration // when the story was over and nothing could happen
	heldFor           time.Duration // how long faults kept something back, in all
	always            []invariant.Invariant
	eventually        []verdict.Eventually
	sometimes         []invariant.Invariant
	seen              map[string]bool
	exempt            []string // promises that are broken though nothing goes wrong
	reports           []string // what is worth telling and breaks no promise
	restricted        bool     // the story called Faults
	differentOutcomes bool     // the test called AllowDifferentOutcomes
	nodes             int      // that the story made with Nodes
	patterns          []fault.Fault
}

// waiting is the story's goroutine waiting for calm.
type waiting struct {
	calm time.Duration
	wake chan struct{}
}

// fatal ends the story, and the run fails.
func (w *World) fatal(format string, args ...any) {
	w.mu.Lock()
	if w.mishap == nil && w.ctx.Err() == nil { // what comes after the run is nobody's mistake
		w.mishap, w.mistake = fmt.Errorf(format, args...), true
	}
	w.mu.Unlock()
	runtime.Goexit()
}

// Fatalf ends the story and fails the run, as t.Fatalf does for a test.
func (w *World) Fatalf(format string, args ...any) { w.fatal(format, args...) }

// Controller starts a controller that is plain client-go. After a crash it is
// constructed anew. The name is how faults and reports speak of it.
func (w *World) Controller(name string, c Constructor) { w.Replicas(name, 1, c) }

// Replicas starts several replicas of one controller, "name/0", "name/1", …, which
// should elect a leader.
func (w *World) Replicas(name string, n int, c Constructor) {
	w.enlist(&actor{name: name, start: c}, n)
}

func (w *World) enlist(a *actor, n int) {
	name, c := a.name, a.start
	if name == "" || strings.ContainsAny(name, " =/") || name == userName || name == someoneName {
		w.fatal("controller name %q: want a word without blanks, = and /, other than %s and %s", name, userName, someoneName)
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
			w.newborn = append(w.newborn, func() { w.begin(a, replica, "") })
		}
	}
	w.mu.Unlock()
	if taken {
		w.fatal("controller %s: the name is taken", name)
	}
	w.turn()
}

// turn lets the schedule take in what the story did, and comes back when it has.
func (w *World) turn() { w.wait(&waiting{calm: -1}) }

func (w *World) wait(x *waiting) {
	x.wake = make(chan struct{})
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

// Faults restricts what may go wrong to these patterns. Without it everything of the
// run's level may. Called with nothing it allows no fault at all.
func (w *World) Faults(patterns ...fault.Fault) {
	for _, p := range patterns {
		if err := p.Check(); err != nil {
			w.fatal("%v", err)
		}
	}
	w.restricted, w.patterns = true, append(w.patterns, patterns...)
}

// Always adds promises that must hold at every moment from now on.
func (w *World) Always(all ...invariant.Invariant) { w.always = append(w.always, all...) }

// Eventually adds a promise that must hold once the story is over and this much time
// of the run's clock has gone by since, and stay so.
func (w *World) Eventually(within time.Duration, i invariant.Invariant) {
	w.eventually = append(w.eventually, verdict.Eventually{Invariant: i, Within: within})
}

// Sometimes adds something that must be seen in at least one run: it shows that the
// test bites.
func (w *World) Sometimes(all ...invariant.Invariant) {
	w.sometimes = append(w.sometimes, all...)
	for _, i := range all {
		w.seen[i.Name] = false
	}
}

// AllowDifferentOutcomes says that runs with faults may legitimately end in another state than runs
// without: the outcome depends on which pod is first, say. Runs are then judged by the invariants
// alone, and not compared with the runs without faults.
func (w *World) AllowDifferentOutcomes() { w.differentOutcomes = true }

// Advance lets time of the run's clock go by, with everything that happens meanwhile.
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

// Settle waits until nobody has written anything for ten seconds of the run's clock.
// Leases and Events do not count.
func (w *World) Settle() { w.wait(&waiting{calm: settleCalm}) }

const settleCalm = 10 * time.Second

// Now is the run's clock.
func (w *World) Now() time.Time { return time.Now() }

// Config is a client for the story itself: its requests take part in the schedule
// as those of a controller do, but nothing goes wrong with them.
func (w *World) Config() *rest.Config { return w.user.config() }

// View is the truth, for the story to look at.
func (w *World) View() invariant.View {
	return w.truth
}

// elapsed is how far the run's clock has gone.
func (w *World) elapsed() time.Duration { return time.Since(w.start) }

func (w *World) poke() {
	select {
	case w.arrived <- struct{}{}:
	default:
	}
}

// park takes a request in; false if its instance is dead.
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

// withdraw forgets a request whose client has given up.
func (w *World) withdraw(q *request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	q.gone = true
}

func (w *World) panicked(who string, what any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mishap == nil {
		w.mishap = fmt.Errorf("%s panicked: %v", who, what)
	}
	w.poke()
}

const (
	userName    = "user"
	someoneName = "someone"
)

var errStoryEnded = errors.New("the story ended before it was told; it must not call t, but w.Fatalf")
