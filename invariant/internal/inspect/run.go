package inspect

import (
	"time"

	"github.com/rehearse-k8s/rehearse/history"
)

// Reconciles finds the reconciles of a run: for each request, the step that started its reconcile and the
// requests that the reconcile sent before it. It reads each step of the run once, also if the run grows
// between calls. It is not safe for concurrent use.
type Reconciles struct {
	run   *history.Run
	steps []reconcileStep
}

// reconcileStep is what Reconciles knows about one step.
type reconcileStep struct {
	start     int
	previous  int // the request before this one in the same reconcile; -1 if there is none
	malformed bool
}

// NewReconciles returns the reconciles of a run.
func NewReconciles(run *history.Run) *Reconciles { return &Reconciles{run: run} }

// Start returns the step that started the reconcile which sent a request. It follows the causes
// backwards, from answer to request. Lists and watches that precede all other requests belong to the
// informers, so the reconcile starts with what they delivered. If the request has no cause, or if a step
// before it has a cause that does not precede it, Start returns the request itself.
func (r *Reconciles) Start(request int) int { return r.at(request).start }

// Previous returns the request that the same reconcile sent before a request; ok is false if it is the first.
func (r *Reconciles) Previous(request int) (previous int, ok bool) {
	previous = r.at(request).previous
	return previous, previous >= 0
}

func (r *Reconciles) at(step int) reconcileStep {
	for n := len(r.steps); n <= step; n++ {
		r.steps = append(r.steps, r.read(n))
	}
	return r.steps[step]
}

// read determines the reconcile of step n from that of the step that caused it.
func (r *Reconciles) read(n int) reconcileStep {
	steps := r.run.Steps
	if len(steps[n].Causes) == 0 {
		return reconcileStep{start: n, previous: -1}
	}
	cause := steps[n].Causes[0]
	if cause >= n {
		return reconcileStep{start: n, previous: -1, malformed: true}
	}
	request := cause
	if steps[cause].Kind == history.Answer && len(steps[cause].Causes) > 0 {
		request = steps[cause].Causes[0]
	}
	switch {
	case request > cause || steps[request].Kind == history.Request && r.steps[request].malformed:
		return reconcileStep{start: n, previous: -1, malformed: true}
	case steps[request].Kind != history.Request:
		return reconcileStep{start: cause, previous: -1}
	}
	before := r.steps[request]
	if verb := steps[request].Verb; before.previous < 0 && (verb == "list" || verb == "watch") {
		return reconcileStep{start: cause, previous: -1} // an informer's request
	}
	if len(steps[request].Causes) == 0 {
		return reconcileStep{start: cause, previous: request}
	}
	return reconcileStep{start: before.start, previous: request}
}

// inFlight is the longest time that a real process needs from an event on its connection to the
// request that takes the event into account: a request may wait for a processor or for the
// client's own rate limit.
const inFlight = time.Second

// DecidedAt returns the step whose view of the API a write was decided on: the step at which its
// reconcile started. In a live run that step is inferred from the order of messages, and an event
// that arrived shortly before the write may have come too late for it.
func (r *Reconciles) DecidedAt(write int) int {
	start := r.Start(write)
	if r.run.Live {
		for start > 0 && r.run.Steps[start].At > r.run.Steps[write].At-inFlight {
			start--
		}
	}
	return start
}
