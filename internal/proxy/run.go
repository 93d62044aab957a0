package proxy

import (
	"sync"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/wire"
)

// Hooks are the effects of faults that the proxy itself cannot cause. The goroutines of requests
// call them, and they may block. A nil hook has no effect.
type Hooks struct {
	// Crash kills the process of an actor and restarts it, after the duration of the fault if it
	// has one.
	Crash func(actor string, f fault.Fault)
	// Overlap starts a second instance of an actor.
	Overlap func(actor string, f fault.Fault)
	// Depose kills the process of the actor of a step, adds this step to the record, starts the actor's successor, and reports
	// whether it did.
	Depose func(f fault.Fault, crash history.Step) bool
	// Interfere changes an object as the fault defines, as another user, and reports whether it sent a request
	// that succeeded.
	Interfere func(f fault.Fault, o history.Object) bool
	// Guard permits or denies each delete and deletecollection before the proxy sends it.
	Guard func(c *wire.Call) Permit
	// Created is called for each object that a recorded request has created, before the client
	// receives the answer.
	Created func(o history.Object)
	// Ignore reports whether an object does not belong to the run: the proxy delivers its events to
	// the client without faults, and does not record them.
	Ignore func(o history.Object) bool
}

// Run is one run: while it is active, the proxy applies faults and records requests and events.
type Run struct {
	proxy *Proxy
	hooks Hooks
	start time.Time

	mu     sync.Mutex
	plan   *fault.Plan
	header history.Header
	steps  []history.Step // without numbers and hashes
	began  []began        // when each step was added
	newest int64          // the newest revision of all steps
	// newestOf is the newest revision of a resource: an API server may store a resource in an etcd of its own.
	newestOf map[string]int64
	streams  int
	known    map[string]revisions // the revisions of objects in answers and events
	wrote    map[int64]int        // the step that wrote a revision
	// newestDelivered is the newest revision of all delivered events.
	newestDelivered map[watch]int64

	holds   []*hold   // in the order of their start
	active  time.Time // the time of the last activity
	fault   time.Time // when a fault last took effect
	quiet   *time.Timer
	longest time.Duration
	// expected: the user is about to act, see Expect.
	expected bool
	ended    bool
	// unrecorded are requests that have arrived and get no step.
	unrecorded []history.Arrival
	copy       *history.Run // a record of all steps; nil if it is not up to date
}

// began is the newest revisions when a step was added: of all steps, and of those with the same resource. A request
// that was sent then and writes, writes a newer one.
type began struct {
	newest, ofResource int64
	longAfter          bool // see LongAfter
}

// watch identifies the watches of one actor for one resource.
type watch struct{ actor, resource string }

// Begin starts a run: from now on the proxy applies faults. Only one run may be active.
func (p *Proxy) Begin(header history.Header, faults []fault.Fault, hooks Hooks) (*Run, error) {
	r := &Run{
		proxy: p, hooks: hooks, start: time.Now(), plan: fault.NewPlan(faults),
		known: map[string]revisions{}, wrote: map[int64]int{}, newestOf: map[string]int64{}, newestDelivered: map[watch]int64{}, active: time.Now(), longest: Longest,
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
	r.mu.Lock() // checkQuiet reads the field
	r.quiet = time.AfterFunc(Quiet, r.checkQuiet)
	r.mu.Unlock()
	return r, nil
}

// End ends all holds and returns the record. The proxy no longer applies faults; open connections
// of clients continue.
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

// Add records a step that the proxy does not observe: the start or exit of an actor, or a write of
// the user. It returns the number of the step; -1 if the run has ended.
func (r *Run) Add(s history.Step) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.add(s, false)
}

// addBecause records a request that a fault causes, or no fault.
func (r *Run) addBecause(s history.Step, cause because) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.add(s, cause.longAfter)
}

// Record returns a copy of the record so far. Callers must not change it: the next call returns the
// same copy if no step was recorded in between.
func (r *Run) Record() *history.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.soFar()
}

// Revision returns the newest revision of all answers and events so far.
func (r *Run) Revision() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest
}

// Unmet returns the faults that have not acted.
func (r *Run) Unmet() []fault.Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plan.Unmet()
}

// LastFault returns when a fault last took effect, without the requests of LongAfter; the zero time if none has.
func (r *Run) LastFault() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fault
}

// add records a step, see LongAfter. The lock is held.
func (r *Run) add(s history.Step, longAfter bool) int {
	if r.ended {
		return -1
	}
	s.At = time.Since(r.start)
	s.Unrecorded, r.unrecorded = append(r.unrecorded, s.Unrecorded...), nil
	r.steps = append(r.steps, s)
	r.began = append(r.began, began{r.newest, r.newestOf[s.Resource], longAfter})
	n := len(r.steps) - 1
	r.happened(n)
	return n
}

// notRecorded notes a request that has arrived and is not recorded, because its client is gone: the next step names it.
func (r *Run) notRecorded(s *history.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unrecorded = append(r.unrecorded, s.Arrived())
}

// complete replaces the step of a request that was recorded when the request was sent.
func (r *Run) complete(n int, s history.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || n < 0 {
		return
	}
	s.At, s.Unrecorded = r.steps[n].At, r.steps[n].Unrecorded
	r.steps[n] = s
	r.happened(n)
}

// happened updates the state that depends on the steps. The lock is held.
func (r *Run) happened(n int) {
	s := &r.steps[n]
	r.newest = max(r.newest, s.Revision)
	r.newestOf[s.Resource] = max(r.newestOf[s.Resource], s.Revision)
	r.copy = nil
	if s.Fault != "" && !r.began[n].longAfter {
		r.fault = time.Now()
	}
	if isActivity(s) {
		r.active = time.Now()
	}
	if s.Wrote() {
		r.wrote[s.Revision] = n
		r.countWrite(n)
	}
}

// isActivity reports whether a step extends the holds. A rejected write changes nothing, and a
// Lease or Event nothing of importance. Without this rule, a client that repeats a write because
// its cache is stale would never receive the held event.
func isActivity(s *history.Step) bool {
	if !s.IsWrite() {
		return true
	}
	return s.Code/100 == 2 && !history.Bookkeeping(s.Resource)
}

// newStream returns the number of the next watch.
func (r *Run) newStream() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams++
	return r.streams
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
