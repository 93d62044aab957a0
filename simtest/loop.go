package simtest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing/synctest"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/inject"
	"github.com/rehearse-k8s/rehearse/internal/wire"
)

// parked is a request that waits until the schedule chooses it.
type parked struct {
	*request
	age   int // the step after which it arrived
	cause int
	hold  *hold
	chain chain
	hits  []fault.Fault // the faults that matched the request and are still to be applied
	order string

	delayedBy string // the fault that delayed the request, as text
	deposed   bool   // the instance that sent it has been terminated

	wrote  []int64 // the revisions that the request wrote
	asOf   int64   // the older revision as of which the list is answered; 0: the current one
	stream *stream // the stream of a watch that has started
}

// parkedAnswer is an answer whose delivery is delayed.
type parkedAnswer struct {
	*parked
	answer answer
	age    int
	served int // step of the request
	hold   *hold
	fault  string
}

// later is an action that the schedule itself takes.
type later struct {
	chain chain
	age   int
	hold  *hold
	do    func()
}

// schedule adds an action of a chain that is due when the hold ends, or at once if h is nil.
func (w *World) schedule(c chain, h *hold, age int, do func()) {
	w.later = append(w.later, &later{chain: c, age: age, hold: h, do: do})
}

// loop is the schedule. Until the run is over, it chooses one of the actions that may happen next,
// and executes it.
func (w *World) loop() {
	for !w.over {
		w.waitBlocked()
		w.admit()
		w.server.reportProgress()
		if !w.collect() {
			return
		}
		w.checkAlways()
		if w.over {
			return
		}
		w.reseed()
		switch next := w.next(); {
		case next == nil && w.hasWaiters(): // collect has started an instance since admit
			continue
		case next == nil:
			w.idle()
		case w.isBusy():
			w.passBusy()
		default:
			next()
		}
		w.checkLivelock()
	}
}

// waitBlocked waits until every goroutine of the run is blocked. If that never happens, the guard
// reports the run as stuck and copies the record; reportProgress orders these reads after the
// writes up to now.
func (w *World) waitBlocked() {
	w.server.reportProgress()
	synctest.Wait()
}

// testOracle names the rule that errors of the test itself violate.
const testOracle = "the test itself has no error"

// failTest ends the run because of an error of the test, not of a controller.
func (w *World) failTest(message string) {
	w.mu.Lock()
	w.byTest = true
	w.mu.Unlock()
	w.fail(testOracle, message)
}

// collect accepts what the last step caused: new requests, in an order that does not depend on
// which goroutine sent first, and new watch events. It returns false if the run is over.
func (w *World) collect() (ok bool) {
	select {
	case <-w.arrived:
	default:
	}
	w.mu.Lock()
	runErr, byTest, toStart, inbox, x := w.runErr, w.byTest, w.toStart, w.inbox, w.waiting
	w.toStart, w.inbox = nil, nil
	if x != nil && x.calm < 0 {
		w.waiting = nil
	} else {
		x = nil
	}
	w.requests = slices.DeleteFunc(w.requests, func(p *parked) bool {
		if p.gone {
			w.notRecorded(p.call.Step(p.from.name))
		}
		return p.gone
	})
	w.mu.Unlock()
	if runErr != nil {
		oracle := "nothing panics"
		var rule *violation
		switch {
		case byTest:
			oracle = testOracle
		case errors.As(runErr, &rule):
			oracle = rule.oracle
		}
		w.fail(oracle, runErr.Error())
		return false
	}
	w.reap()
	if w.over {
		return false
	}
	for _, begin := range toStart {
		begin()
	}
	w.accept(inbox)
	for _, i := range w.instances {
		if !i.dead {
			w.receive(i)
		}
	}
	if x != nil {
		close(x.wake)
		w.waitBlocked()
		return w.collect()
	}
	return true
}

// accept matches new requests with the faults of the run and puts them into the queue.
func (w *World) accept(inbox []*request) {
	fresh := make([]*parked, 0, len(inbox))
	for _, q := range inbox {
		fresh = append(fresh, &parked{request: q, order: q.order(), chain: w.requestChain(q)})
	}
	sort.SliceStable(fresh, func(i, j int) bool { return fresh[i].order < fresh[j].order })
	for _, p := range fresh {
		p.age = len(w.record.Steps)
		p.cause = p.from.last
		if w.lastTime {
			p.cause = p.age - 1
		}
		if p.from.actor != nil {
			item := p.call.Item(p.from.name)
			p.hits = w.faults.Meet(item)
		}
		if f, late := inject.Delay(p.hits); late {
			p.hold, p.delayedBy = w.newHoldOf(f, p.from, w.truth.Revision()), f.String()
		}
		w.requests = append(w.requests, p)
	}
}

// order is the sort key of requests that arrived in the same step.
func (q *request) order() string {
	c := &q.call
	return strings.Join([]string{q.from.name, c.Resource, c.Verb, c.Subresource, c.Key(), c.Query, c.Digest}, "\x00")
}

// receive accepts what the server has sent on the watches of an instance.
func (w *World) receive(i *instance) {
	open := i.streams[:0]
	for _, s := range i.streams {
		if s.body.over() {
			w.dropPending(s)
			s.feed.cancel()
			continue
		}
		open = append(open, s)
		if s.ended {
			continue
		}
		frames, more := s.feed.take()
		s.ended = !more
		for _, raw := range frames {
			w.acceptFrame(s, raw)
		}
	}
	clear(i.streams[len(open):])
	i.streams = open
}

// acceptFrame describes a frame and matches it with faults.
func (w *World) acceptFrame(s *stream, raw []byte) {
	event, err := wire.DescribeEvent(s.mediaType, raw)
	if err != nil {
		w.fail("watch events can be read", fmt.Sprintf("stream %d of %s: %v", s.n, s.to.name, err))
		return
	}
	f, initial := &frame{Delivery: inject.OnEvent(nil), raw: raw, event: event, age: len(w.record.Steps), cause: s.opened}, s.initial
	if s.initial && event.InitialEnd {
		s.initial = false
	}
	if step, ok := w.wrote[event.Revision]; ok && !initial {
		f.cause = step
	}
	if s.to.actor != nil {
		f.Delivery = inject.OnEvent(w.faults.Meet(event.Item(s.to.name, s.call.Resource, initial)))
		if f.Hold != nil {
			f.hold = w.holdStream(s, f)
		} else if b := w.lagging(s.to.name); b != nil {
			f.hold, f.Fault = b.hold, cmp.Or(f.Fault, b.fault.String())
		}
	}
	s.pending = append(s.pending, f)
}

// place is the position of an entry in the queue. Entries are ordered by age (a lower one first),
// then class, then order, then number.
type place struct {
	age, class int
	order      string
	number     int
}

func (p place) before(q place) bool {
	return cmp.Or(cmp.Compare(p.age, q.age), cmp.Compare(p.class, q.class), cmp.Compare(p.order, q.order), cmp.Compare(p.number, q.number)) < 0
}

// The classes of entries of the queue.
const (
	scheduled = iota
	heldAnswer
	watchEvent
	newRequest
)

// next returns the action that may happen now and has the highest priority, or nil. Without a schedule that is the oldest.
func (w *World) next() func() {
	for {
		best, several := w.best()
		if best == nil {
			return nil
		}
		if !several || !w.priorities.changes(best.chain) {
			return best.do
		}
	}
}

// best returns the action with the highest priority among those that may happen now, or nil, and whether several chains
// have such actions.
func (w *World) best() (best *ready, several bool) {
	step := len(w.record.Steps)
	var first ready
	offer := func(p place, c chain, do func()) {
		a := ready{place: p, chain: c, do: do}
		several = several || best != nil && c != best.chain
		if best == nil || w.priorities.precedes(&a, best, step) {
			first = a
			best = &first
		}
	}
	for n, l := range w.later {
		if !w.held(l.hold) {
			offer(place{age: l.age, class: scheduled, number: n}, l.chain, func() {
				w.later = slices.Delete(w.later, n, n+1)
				l.do()
			})
		}
	}
	for n, a := range w.answers {
		if !w.held(a.hold) && !w.held(a.from.pause) {
			offer(place{age: a.age, class: heldAnswer, number: n}, a.chain, func() {
				w.answers = slices.Delete(w.answers, n, n+1)
				w.deliverAnswer(a)
			})
		}
	}
	for _, i := range w.instances {
		if i.dead || w.held(i.pause) {
			continue
		}
		for _, s := range i.streams {
			switch {
			case len(s.pending) > 0:
				if f := s.pending[0]; !w.held(f.hold) {
					offer(place{age: f.age, class: watchEvent, number: s.n}, s.chain, func() { w.deliver(s) })
				}
			case s.ended:
				offer(place{age: step, class: watchEvent, number: s.n}, s.chain, func() { w.cutStream(s, "", "the server ended it") })
			}
		}
	}
	for n, p := range w.requests {
		if !w.held(p.hold) && !w.held(p.from.pause) {
			offer(place{age: p.age, class: newRequest, order: p.order, number: n}, p.chain, func() {
				w.requests = slices.Delete(w.requests, n, n+1)
				w.process(p)
			})
		}
	}
	return best, several
}

// idle is called when no action may happen. It ends the oldest hold that has no time limit, or
// wakes the test function, or ends the run, or lets time pass.
func (w *World) idle() {
	var oldest *hold
	held, limit := false, time.Hour
	w.visitHolds(func(h *hold) {
		held = true
		if until, timed := h.Until(); timed {
			limit = min(limit, until-w.elapsed())
		} else if oldest == nil || h.since < oldest.since {
			oldest = h
		}
	})
	if oldest != nil {
		oldest.End()
		w.ending = 0
		return
	}
	w.mu.Lock()
	x, testReturned := w.waiting, w.testReturned
	w.mu.Unlock()
	switch {
	case x != nil:
		left := w.lastOtherWrite(x.since, x.calm) + x.calm - w.elapsed()
		if left <= 0 {
			w.mu.Lock()
			w.waiting = nil
			w.mu.Unlock()
			close(x.wake)
			return
		}
		limit = min(limit, left)
	case testReturned:
		left := w.checkQuiescence(held)
		if w.over {
			return
		}
		limit = min(limit, left)
	}
	began := w.elapsed()
	w.pass(limit)
	if held {
		w.heldFor += w.elapsed() - began
	}
}

// bookmarkEvery is how often the server sends a bookmark to watches without events. A
// kube-apiserver sends them about once a minute; here the interval is longer than a short run,
// which then has none.
const bookmarkEvery = 90 * time.Second

// pass lets time pass until a goroutine has a request, but not longer than limit.
func (w *World) pass(limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-w.arrived:
	case <-timer.C:
	}
	w.passed()
	w.lastPause = w.lastPass
}

// A run whose actors are never done for busyAfter steps lets time pass: a second for each busyEvery further steps, so
// 10 ms for a request. Without that, two leaders could replace each other's writes for ever, although one of them
// knows after ten seconds that it has lost its lease.
const (
	busyAfter = 500
	busyEvery = 100
	busyFor   = time.Second
)

// isBusy reports whether time has to pass although some actor has something to do.
func (w *World) isBusy() bool {
	n := len(w.record.Steps)
	return n >= w.lastPause+busyAfter && n >= w.lastPass+busyEvery
}

// passBusy lets time pass while requests wait for their turn.
func (w *World) passBusy() {
	<-time.After(busyFor)
	w.passed()
}

// passed records that time has passed.
func (w *World) passed() {
	w.lastPass = w.add(history.Step{Kind: history.Time}).N
	w.lastTime = true
	if w.elapsed() >= w.bookmarks {
		w.store.SendProgress()
		w.bookmarks = w.elapsed() + bookmarkEvery
	}
}

// add records a step.
func (w *World) add(s history.Step) *history.Step {
	s.At = w.elapsed()
	if s.Fault != "" {
		w.lastFault = s.At
	}
	s.Truth = w.truth.Revision()
	// An actor that has received nothing yet acts without a cause.
	s.Causes = slices.DeleteFunc(s.Causes, func(cause int) bool { return cause >= len(w.record.Steps) })
	w.lastTime = false
	s.Unrecorded, w.unrecorded = w.unrecorded, nil
	return w.record.Add(s)
}
