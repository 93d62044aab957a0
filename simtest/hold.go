package simtest

import (
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/inject"
)

// hold delays something: a request, an answer, a stream, an instance or an action.
type hold struct {
	inject.Hold
	since int       // the step at which it began
	to    *instance // the instance whose request, answer or event is delayed; nil: no event ends the hold
}

// maxHoldSteps is the number of steps after which a hold without a time limit ends. Without this
// limit, two controllers that undo each other's work while the event that would stop them is
// delayed never become quiescent.
const maxHoldSteps = 300

// newHold begins the hold of a fault.
func (w *World) newHold(f fault.Fault) *hold {
	return &hold{Hold: inject.NewHold(f, w.progress(nil), 0), since: len(w.record.Steps)}
}

// newHoldOf begins the hold of a request, answer or event of an instance; revision is that of the
// delayed object.
func (w *World) newHoldOf(f fault.Fault, to *instance, revision int64) *hold {
	return &hold{Hold: inject.NewHold(f, w.progress(to), revision), since: len(w.record.Steps), to: to}
}

// holdUntil is a hold that ends at a time of the run.
func holdUntil(t time.Duration) *hold { return &hold{Hold: inject.HoldUntil(t)} }

// progress is the state of the run that ends holds.
func (w *World) progress(to *instance) inject.Progress {
	return inject.Progress{Elapsed: w.elapsed(), Writes: w.writes, Delivered: func(resource string) int64 {
		if to == nil {
			return 0
		}
		return to.delivered[resource]
	}}
}

// held reports whether a hold has not ended. It is false for nil.
func (w *World) held(h *hold) bool {
	if h == nil {
		return false
	}
	if h.Ended() {
		return false
	}
	if _, timed := h.Until(); !timed && len(w.record.Steps) > h.since+maxHoldSteps {
		h.End()
	}
	if h.Over(w.progress(h.to)) {
		w.ending = 0 // the timeouts of eventual invariants start again
		return false
	}
	return true
}

// visitHolds calls visit with every hold that has not ended.
func (w *World) visitHolds(visit func(*hold)) {
	see := func(h *hold) {
		if w.held(h) {
			visit(h)
		}
	}
	for _, l := range w.later {
		see(l.hold)
	}
	for _, a := range w.answers {
		see(a.hold)
	}
	for _, i := range w.instances {
		if i.dead {
			continue
		}
		see(i.pause)
		for _, s := range i.streams {
			if len(s.pending) > 0 {
				see(s.pending[0].hold)
			}
		}
	}
	for _, p := range w.requests {
		see(p.hold)
	}
	for _, b := range w.blockades {
		see(b.hold)
	}
}
