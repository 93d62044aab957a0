package proxy

import (
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/inject"
)

// Quiet is the time without activity after which a hold without a duration ends: then nothing
// changes without time passing.
const Quiet = 500 * time.Millisecond

// Longest is the maximum duration of a hold without a duration, for a run that never becomes quiet:
// because of the hold, a client may repeat the same requests forever.
const Longest = 10 * time.Second

// hold delays a request, an answer, a stream or a client until done is closed.
type hold struct {
	inject.Hold
	done  chan struct{}
	actor string    // the actor of the held request, answer or event
	since time.Time // the start of the hold
	// after is the first step whose write counts, and writes the number of writes that have
	// counted. A write that was sent before the hold started, and is answered later, does not
	// count.
	after, writes int
}

// over reports whether a hold has ended. A nil hold has.
func (h *hold) over() bool {
	if h == nil {
		return true
	}
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}

// hold starts a hold of an item that an actor has sent or will receive. revision is the revision of
// the held item; 0 if it has none.
func (r *Run) hold(f fault.Fault, actor string, revision int64) *hold {
	r.mu.Lock()
	defer r.mu.Unlock()
	if revision == 0 {
		revision = r.newest
	}
	h := &hold{done: make(chan struct{}), actor: actor, since: time.Now(), after: len(r.steps)}
	h.Hold = inject.NewHold(f, r.progress(h), revision)
	if r.ended || h.Over(r.progress(h)) {
		close(h.done)
		return h
	}
	if _, timed := h.Until(); timed {
		time.AfterFunc(f.For, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.endHolds(func(*hold) bool { return false })
		})
	}
	r.holds = append(r.holds, h)
	return h
}

// progress is the input for the end of a hold. The lock is held.
func (r *Run) progress(h *hold) inject.Progress {
	return inject.Progress{Elapsed: time.Since(r.start), Writes: h.writes, Delivered: func(resource string) int64 {
		return r.newestDelivered[watch{h.actor, resource}]
	}}
}

// endHolds ends the holds that are over and those that early selects. The lock is held.
func (r *Run) endHolds(early func(*hold) bool) {
	left := r.holds[:0]
	for _, h := range r.holds {
		if early(h) {
			h.End()
		}
		if h.Over(r.progress(h)) {
			close(h.done)
		} else {
			left = append(left, h)
		}
	}
	clear(r.holds[len(left):])
	r.holds = left
}

// countWrite counts the write of step n for the holds that it may end. The lock is held.
func (r *Run) countWrite(n int) {
	if history.Bookkeeping(r.steps[n].Resource) {
		return
	}
	for _, h := range r.holds {
		if n >= h.after {
			h.writes++
		}
	}
	r.endHolds(func(*hold) bool { return false })
}

// delivered records that a watch has delivered an event to an actor.
func (r *Run) delivered(actor, resource string, revision int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := watch{actor, resource}
	if revision <= r.newestDelivered[w] {
		return
	}
	r.newestDelivered[w] = revision
	r.endHolds(func(*hold) bool { return false })
}

// Expect marks that the user will act. Until the returned function is called, a time without activity ends no hold:
// something can still happen. Otherwise the user's step after a time of rest and the end of the holds would race.
func (r *Run) Expect() (acted func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expected = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.expected, r.active = false, time.Now()
	}
}

// checkQuiet ends the oldest hold without a duration (also one that waits for writes) after a time
// without activity, and the holds that have exceeded Longest.
func (r *Run) checkQuiet() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	untimed := func(h *hold) bool { _, timed := h.Until(); return !timed }
	r.endHolds(func(h *hold) bool { return untimed(h) && time.Since(h.since) > r.longest })
	left := Quiet - time.Since(r.active)
	if r.expected {
		left = Quiet
	}
	if left <= 0 {
		oldest := true
		r.endHolds(func(h *hold) bool {
			if !untimed(h) || !oldest {
				return false
			}
			oldest, r.active = false, time.Now()
			return true
		})
		left = Quiet
	}
	r.quiet.Reset(left)
}

// Holds reports whether faults hold anything.
func (r *Run) Holds() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.holds) > 0
}
