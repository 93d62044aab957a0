package proxy

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/wire"
)

// Hooks are what faults ask for that a proxy cannot do. They are called from the
// goroutines of requests and may take their time; a nil one does nothing.
type Hooks struct {
	// Crash ends the process of an actor at once and begins it anew, when the fault's time
	// is over if it has one.
	Crash func(actor string, f fault.Fault)
	// Overlap begins a second instance of an actor.
	Overlap func(actor string, f fault.Fault)
	// Interfere does to an object what the fault says, as somebody else.
	Interfere func(f fault.Fault, o history.Object)
	// Guard decides on each delete and deletecollection before it is sent.
	Guard func(c *wire.Call) Permit
	// Created is called for each object that a recorded request has created, before its answer
	// goes on.
	Created func(o history.Object)
	// Apart tells objects that are not the run's: their events reach the client, meet no faults and
	// are not recorded.
	Apart func(o history.Object) bool
}

// Quiet is how long nothing has to happen until a hold without a time is over: then the
// world has nothing else to do but wait for time.
const Quiet = 500 * time.Millisecond

// Longest is how long a hold without a time lasts in a world that never falls quiet:
// because of the hold itself, a client may go round in circles.
const Longest = 10 * time.Second

// Run is a time in which faults act and everything is recorded.
type Run struct {
	proxy *Proxy
	hooks Hooks
	start time.Time

	mu      sync.Mutex
	plan    *fault.Plan
	header  history.Header
	steps   []history.Step // not numbered nor hashed yet
	truth   int64          // the newest revision that any step has told
	streams int
	known   map[string]revisions // of objects, as answers and events have shown them
	wrote   map[int64]int        // the steps that made revisions
	told    map[watch]int64      // the newest revision that each has brought
	holds   []*hold              // in the order in which they began
	active  time.Time            // when something last happened
	quiet   *time.Timer
	longest time.Duration
	ended   bool
	copy    *history.Run // of the steps so far; nil if there are new ones
}

// hold is something that is kept back until done is closed.
type hold struct {
	done chan struct{}
	// after is the step from which on writes count, left how many of them are still to have
	// effect; 0: it is not over by writes. A write that was sent before the hold began, and
	// is answered later, does not count.
	after, left int
	timed       bool // over by a timer of its own
	since       time.Time
	// event is what a watch of the actor is to bring; its revision is 0 if it is not over by that.
	event awaited
}

// awaited is an event of a resource, at a revision or later, that a watch of an actor brings.
type awaited struct {
	watch
	revision int64
}

// watch is what an actor's watches of one resource have in common.
type watch struct{ actor, resource string }

// Begin has faults act from now on. One run at a time.
func (p *Proxy) Begin(header history.Header, faults []fault.Fault, hooks Hooks) (*Run, error) {
	r := &Run{
		proxy: p, hooks: hooks, start: time.Now(), plan: fault.NewPlan(faults),
		known: map[string]revisions{}, wrote: map[int64]int{}, told: map[watch]int64{}, active: time.Now(), longest: Longest,
	}
	header.Format, header.Start, header.Live = history.Format, r.start, true
	header.Faults = nil
	for _, f := range faults {
		header.Faults = append(header.Faults, f.String())
	}
	r.header = header
	if !p.run.CompareAndSwap(nil, r) {
		return nil, errOneRun
	}
	r.quiet = time.AfterFunc(Quiet, r.isQuiet)
	return r, nil
}

// End lets everything go that is held back and returns the record. Faults do not act any
// more; what clients have open goes on without them.
func (r *Run) End() *history.Run {
	r.proxy.run.CompareAndSwap(r, nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.quiet.Stop()
	for _, h := range r.holds {
		close(h.done)
	}
	r.holds = nil
	return r.soFar()
}

// record makes a record of the steps. The lock is held.
func (r *Run) record() *history.Run {
	record := &history.Run{Header: r.header, Steps: make([]history.Step, 0, len(r.steps))}
	order := r.order()
	place := make([]int, len(order))
	for n, old := range order {
		place[old] = n
	}
	truth := int64(0)
	for n, old := range order {
		s := r.steps[old]
		causes := s.Causes
		// The event of a write may be here before its answer, and so before anybody knew which
		// revision the write made.
		if made, ok := r.wrote[s.Revision]; ok && s.Kind == history.Frame {
			causes = append(slices.Clone(causes), made)
		}
		s.Causes = nil
		for _, cause := range causes {
			if place[cause] < n {
				s.Causes = append(s.Causes, place[cause])
			}
		}
		truth = max(truth, s.Revision)
		s.Truth = truth
		record.Add(s)
	}
	return record
}

// order is the steps in the order of the record: that in which they began, but that writes
// stand in the order of the revisions that they made. One that was sent first and carried
// out second stands right after the other: nobody can have heard of it before. The lock is
// held.
func (r *Run) order() []int {
	var writes []int
	for n := range r.steps {
		if r.steps[n].Wrote() {
			writes = append(writes, n)
		}
	}
	slices.SortStableFunc(writes, func(a, b int) int { return cmp.Compare(r.steps[a].Revision, r.steps[b].Revision) })
	at := make([]int, len(r.steps)) // after which of the steps as they began each one stands
	turn := make([]int, len(r.steps))
	for n := range at {
		at[n] = n
	}
	last := -1
	for k, n := range writes {
		last = max(last, n)
		at[n], turn[n] = last, k+1
	}
	order := make([]int, len(r.steps))
	for n := range order {
		order[n] = n
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(at[a], at[b]), cmp.Compare(turn[a], turn[b])) })
	return order
}

// Add records something that did not come by the proxy: an actor that was started or
// ended, a write of the user.
func (r *Run) Add(s history.Step) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.add(s)
}

// Record is what was recorded so far. It is a copy, and not to be changed: who asks again
// before anything has happened gets the same one.
func (r *Run) Record() *history.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.soFar()
}

// soFar is the record of the steps so far; the same one as long as nothing happens. The
// lock is held.
func (r *Run) soFar() *history.Run {
	if r.copy == nil {
		r.copy = r.record()
	}
	return r.copy
}

// Revision is the newest one that any answer or event has told of.
func (r *Run) Revision() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.truth
}

// Holds tells whether faults keep anything back.
func (r *Run) Holds() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.holds) > 0
}

// Unmet are the faults that have not acted.
func (r *Run) Unmet() []fault.Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plan.Unmet()
}

// add records a step. The lock is held.
func (r *Run) add(s history.Step) int {
	if r.ended {
		return -1
	}
	s.At = time.Since(r.start)
	r.steps = append(r.steps, s)
	n := len(r.steps) - 1
	r.happened(n)
	return n
}

// complete says what became of a request that was recorded when it was sent.
func (r *Run) complete(n int, s history.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || n < 0 {
		return
	}
	s.At = r.steps[n].At
	r.steps[n] = s
	r.happened(n)
}

// happened takes account of a step. The lock is held.
func (r *Run) happened(n int) {
	s := &r.steps[n]
	r.truth = max(r.truth, s.Revision)
	r.copy = nil
	if news(s) {
		r.active = time.Now()
	}
	if s.Wrote() {
		r.wrote[s.Revision] = n
		r.release(func(h *hold) bool {
			if h.left == 0 || n < h.after {
				return false
			}
			h.left--
			return h.left == 0
		})
	}
}

// news tells whether a step is a reason to go on keeping things back. A write that is refused
// changes nothing, and bookkeeping nothing that matters: who tries again and again
// because its view lags would otherwise never see what is held back.
func news(s *history.Step) bool {
	if !s.IsWrite() {
		return true
	}
	return s.Code/100 == 2 && !history.Bookkeeping(s.Resource)
}

// meet counts an item and returns the faults that act on it.
func (r *Run) meet(i fault.Item) []fault.Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !i.Write {
		r.active = time.Now()
	}
	return r.plan.Meet(i)
}

// keep begins to hold back what an actor sent or is to get, as a fault says. held is its
// revision; 0: it has none.
func (r *Run) keep(f fault.Fault, actor string, held int64) *hold {
	h := &hold{done: make(chan struct{}), since: time.Now()}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		close(h.done)
		return h
	}
	switch {
	case f.For > 0:
		h.timed = true
		time.AfterFunc(f.For, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.release(func(x *hold) bool { return x == h })
		})
	case f.Writes > 0:
		h.after, h.left = len(r.steps), f.Writes
	case f.Until != "":
		if held == 0 {
			held = r.truth
		}
		h.event = awaited{watch{actor, f.Until}, cmp.Or(f.UntilRevision, held+1)}
		if r.told[h.event.watch] >= h.event.revision {
			close(h.done)
			return h
		}
	}
	r.holds = append(r.holds, h)
	return h
}

// tell notes that a watch has brought an actor an event.
func (r *Run) tell(actor, resource string, revision int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := watch{actor, resource}
	if revision <= r.told[w] {
		return
	}
	r.told[w] = revision
	r.release(func(h *hold) bool { return h.event.revision != 0 && h.event.watch == w && revision >= h.event.revision })
}

// release ends holds. The lock is held.
func (r *Run) release(which func(*hold) bool) {
	left := r.holds[:0]
	for _, h := range r.holds {
		if which(h) {
			close(h.done)
		} else {
			left = append(left, h)
		}
	}
	clear(r.holds[len(left):])
	r.holds = left
}

// isQuiet ends the oldest hold without a time once nothing has happened for a while, also
// one that waits for writes that nobody makes, and those that have lasted too long.
func (r *Run) isQuiet() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	r.release(func(h *hold) bool { return !h.timed && time.Since(h.since) > r.longest })
	left := Quiet - time.Since(r.active)
	if left <= 0 {
		for _, h := range r.holds {
			if !h.timed {
				r.release(func(x *hold) bool { return x == h })
				r.active = time.Now()
				break
			}
		}
		left = Quiet
	}
	r.quiet.Reset(left)
}

// seen notes a revision of an object. The lock is held.
func (r *Run) seen(o history.Object, revision int64) {
	key := o.String()
	if k := r.known[key]; revision > k.last {
		r.known[key] = revisions{last: revision, before: k.last}
	}
}

// before is the revision that an object had before a write that has left it at now: the
// last that anybody saw. The event of the write may have been seen already; a write that
// has left the object at a revision which an earlier one made has changed nothing. The lock
// is held.
func (r *Run) before(o history.Object, now int64) int64 {
	r.seen(o, now)
	if _, made := r.wrote[now]; made {
		return now
	}
	if k := r.known[o.String()]; k.last == now {
		return k.before
	}
	return 0
}

// revisions are the last two that anybody saw of an object.
type revisions struct{ last, before int64 }
