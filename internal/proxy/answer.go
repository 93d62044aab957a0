package proxy

import (
	"io"
	"net/http"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/wire"
)

// patience is how long a request goes without an answer before its connection breaks, if
// the client does not give up before: many wait for ever.
const patience = 3 * time.Second

// answer carries a request out, or does to it what the faults say.
func (q *exchange) answer() {
	q.door.wait(q.r)
	hits := q.run.meet(q.call.Item(q.door.name))
	step := q.step()
	for _, f := range hits {
		if f.Kind == fault.KindLateRequest {
			step.Fault = f.String()
			if !q.waitFor(q.run.keep(f, q.door.name, 0)) {
				abandon()
			}
		}
	}
	if q.refuse(hits, &step) {
		return
	}
	if q.door.expires(q) {
		step.Code, step.Note = http.StatusGone, "the watch has expired"
		q.note(step)
		a := wire.Expired()
		q.give(a.Code, a.Header, a.Body)
		return
	}
	body, header, permit, denied := q.run.guarded(&q.call, q.r.URL, q.r.Header, q.body)
	if denied != nil {
		a := failed(denied)
		step.Code = a.Code
		q.note(step)
		q.give(a.Code, a.Header, a.Body)
		return
	}
	q.body, q.r.Header = body, header
	n := -1
	if q.writes() {
		if !q.door.begins() {
			abandon()
		}
		defer q.door.writing.Done()
		n = q.run.Add(step) // its event may come before its answer
	}
	resp, err := q.forward()
	if err == nil && permit.denies(resp.StatusCode) {
		_ = resp.Body.Close()
		resp = response(failed(permit.Denied), q.r)
	}
	if err != nil {
		if q.r.Context().Err() == nil {
			http.Error(q.w, "proxy: the API server did not answer: "+err.Error(), http.StatusBadGateway)
		}
		return
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	step.Code = resp.StatusCode
	switch {
	case q.call.Watch && resp.StatusCode == http.StatusOK:
		q.watch(resp, step)
	case q.writes():
		q.written(resp, hits, n, step)
	default:
		q.note(step)
		copyHeader(q.w.Header(), resp.Header)
		q.w.WriteHeader(resp.StatusCode)
		b := buffers.Get()
		defer buffers.Put(b)
		_, _ = io.CopyBuffer(q.w, resp.Body, b)
	}
}

// step is the request as the record has it.
func (q *exchange) step() history.Step {
	s := requestStep(q.door.name, &q.call)
	if cause := q.door.heard(q.run, -1); cause > 0 {
		s.Causes = []int{cause}
	}
	return s
}

// note records a step that the client hears of.
func (q *exchange) note(s history.Step) int {
	n := q.run.Add(s)
	q.door.heard(q.run, n)
	return n
}

// refuse does what faults do to a request before the server sees it, and tells whether
// that was all.
func (q *exchange) refuse(hits []fault.Fault, step *history.Step) bool {
	for _, f := range hits {
		var a wire.Answer
		switch f.Kind {
		case fault.KindConflict:
			a = wire.Conflict(q.call)
		case fault.KindThrottle:
			a = wire.Throttled(max(f.For, time.Second))
		case fault.KindError:
			a = wire.InternalError(q.call)
		case fault.KindTimeout:
			step.Fault, step.Reply = f.String(), "lost"
			q.run.Add(*step)
			q.silence()
		case fault.KindCrashBefore, fault.KindCrash:
			q.crash(f, "before ")
		case fault.KindPause:
			q.run.Add(history.Step{Kind: history.Fault, Actor: q.door.name, Fault: f.String(), Note: "stands still"})
			q.door.stand(q.run.keep(f, q.door.name, 0))
			q.door.wait(q.r)
			continue
		case fault.KindOverlap:
			if q.run.hooks.Overlap != nil {
				q.run.hooks.Overlap(q.door.name, f)
			}
			continue
		default:
			continue
		}
		step.Fault, step.Code = f.String(), a.Code
		q.note(*step)
		q.give(a.Code, a.Header, a.Body)
		return true
	}
	return false
}

// written reads the answer to a write, and gives it, later or not at all if the faults say so.
func (q *exchange) written(resp *http.Response, hits []fault.Fault, n int, step history.Step) {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		abandon()
	}
	q.run.describe(&step, resp.Header.Get("Content-Type"), body)
	late := fault.Fault{}
	lost := false
	for _, f := range hits {
		switch f.Kind {
		case fault.KindLostAnswer:
			step.Fault, step.Reply, lost = f.String(), "lost", true
		case fault.KindLateAnswer:
			step.Fault, step.Reply, late = f.String(), "late", f
		case fault.KindCrashAfter:
			step.Fault, step.Reply, lost = f.String(), "lost", true
		}
	}
	q.run.complete(n, step)
	for _, f := range hits {
		switch f.Kind {
		case fault.KindCrashAfter:
			q.crash(f, "after ")
		case fault.KindDelete, fault.KindEvict, fault.KindLabel, fault.KindFinalizer:
			if resp.StatusCode/100 == 2 && q.run.hooks.Interfere != nil {
				q.run.hooks.Interfere(f, step.Object)
			}
		}
	}
	switch {
	case lost:
		abandon()
	case late.Kind != "":
		if !q.waitFor(q.run.keep(late, q.door.name, step.Revision)) {
			abandon()
		}
		n = q.run.Add(history.Step{
			Kind: history.Answer, Actor: q.door.name, Verb: q.call.Verb, Object: q.call.Object, Subresource: q.call.Subresource,
			Code: step.Code, Fault: step.Fault, Causes: []int{n},
		})
	}
	q.door.heard(q.run, n)
	q.give(resp.StatusCode, resp.Header, body)
}

// crash ends the client's process, and the request with it.
func (q *exchange) crash(f fault.Fault, when string) {
	q.run.Add(history.Step{Kind: history.Crash, Actor: q.door.name, Fault: f.String(), Note: when + q.call.Verb + " " + q.call.String()})
	if q.run.hooks.Crash != nil {
		q.run.hooks.Crash(q.door.name, f)
	}
	abandon()
}

// silence has no answer come, until the client gives up.
func (q *exchange) silence() {
	q.waitFor(q.run.keep(fault.Fault{For: patience}, q.door.name, 0))
	abandon()
}

// waitFor waits until a hold is over, and tells whether the client has waited too.
func (q *exchange) waitFor(h *hold) bool {
	select {
	case <-h.done:
		return !q.door.isClosed()
	case <-q.r.Context().Done():
		return false
	}
}

// stand has the client stand still until a hold is over.
func (d *Door) stand(h *hold) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pause = h
}

// standing is the hold of a client that stands still, nil if it does not.
func (d *Door) standing() *hold {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pause
}

// wait holds a request of a client that stands still.
func (d *Door) wait(r *http.Request) {
	if h := d.standing(); h != nil {
		select {
		case <-h.done:
		case <-r.Context().Done():
		}
	}
}

// heard notes the last step of a run that the client has heard of, if there is a new one,
// and says which it was before. Of earlier runs nothing counts.
func (d *Door) heard(r *Run, n int) (last int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of != r {
		d.of, d.last = r, 0
	}
	last = d.last
	if n >= 0 {
		d.last = n
	}
	return last
}
