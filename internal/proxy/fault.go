package proxy

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/inject"
	"github.com/rehearse-k8s/rehearse/internal/wire"
)

// request is one request of a run. It is the transport that sends the request to the API server.
type request struct {
	listener *Listener
	run      *Run
	next     http.RoundTripper // to the API server
	body     []byte
	call     wire.Call

	// number is the number of the step, once it is recorded, which may be before the request is sent; until then -1.
	number int
	step   history.Step
	// connection is the connection of the client on which the request arrived.
	connection *connection
	// asOf is the older revision as of which the list is answered; 0: the current one.
	asOf int64
	// deposed: the client was terminated while the request was on its way.
	deposed bool
}

// clientTimeout is the time after which the proxy breaks the connection of an unanswered request,
// because many clients have no timeout.
const clientTimeout = 3 * time.Second

// RoundTrip implements http.RoundTripper: it applies the faults before serving, sends the request
// to the API server, applies the faults after serving, and records the request. If the client must
// receive no answer, it panics with http.ErrAbortHandler, which breaks the connection.
func (q *request) RoundTrip(r *http.Request) (*http.Response, error) {
	q.connection = q.listener.currentConnection()
	hits := q.run.meet(q.call.Item(q.listener.name))
	q.step = q.call.Step(q.listener.name)
	if cause := q.listener.observed(q.run); cause > 0 {
		q.step.Causes = []int{cause}
	}
	defer func() {
		if q.number < 0 && !q.deposed {
			q.run.notRecorded(&q.step)
		}
	}()
	q.delay(r, hits)
	before := q.serveOld(q.decide(r, hits))
	if q.deposed {
		hits = nil
	}
	if q.isWrite() {
		if !q.listener.beginWrite() {
			abort()
		}
		defer q.listener.writing.Done()
	}
	resp, err := q.answer(r, before)
	if err != nil {
		return nil, err
	}
	if before.Action == inject.ServeOld && q.asOf == 0 { // the fault has not acted
		before = inject.Decision{Action: inject.Serve}
	}
	after := inject.AfterServing(hits, before, q.step.Code)
	q.step.Fault, q.step.Reply = cmp.Or(after.Fault, before.Text(), q.step.Fault), after.Reply
	if q.deposed {
		q.step.Reply = inject.ReplyLost
	}
	n := q.record()
	for _, c := range after.Then {
		q.apply(c)
	}
	if after.Discarded || q.deposed {
		abort()
	}
	n = q.wait(r, before, after, n)
	if after.Lost || resp == nil {
		abort()
	}
	q.listener.observe(q.run, n)
	if after.Instead != nil {
		_ = resp.Body.Close()
		return response(wire.Rejection(q.call, *after.Instead), r), nil
	}
	if q.step.Stream != 0 {
		resp.Body = newStream(r.Context(), q, resp)
	}
	return resp, nil
}

func (q *request) isWrite() bool { return history.IsWriteVerb(q.call.Verb) }

// delay holds the request if a fault requires it.
func (q *request) delay(r *http.Request, hits []fault.Fault) {
	if f, late := inject.Delay(hits); late {
		q.step.Fault = f.String()
		q.await(r, q.run.hold(f, q.listener.name, 0))
	}
}

// decide returns the decision for the request, after all pauses of the client and the write of another user.
func (q *request) decide(r *http.Request, hits []fault.Fault) inject.Decision {
	for {
		q.awaitClient(r)
		if d, ok := q.listener.blocked(q.run, q.isWrite()); ok {
			return d
		}
		d := inject.BeforeServing(hits)
		switch d.Action {
		case inject.Block:
			hits = d.Rest
			q.block(d.Fault)
			continue
		case inject.Pause:
			hits = d.Rest
			q.run.Add(history.Step{Kind: history.Fault, Actor: q.listener.name, Fault: d.Fault.String(), Note: "paused"})
			q.listener.pause(q.run.hold(d.Fault, q.listener.name, 0))
			continue
		case inject.Crash:
			if d.OldState { // the proxy has no server with an older state
				hits = d.Rest
				continue
			}
			q.crash(d.Fault, "before ")
			abort()
		case inject.Contend:
			hits = d.Rest
			if interfere := q.run.hooks.Interfere; interfere != nil && interfere(d.Fault, q.call.Object) {
				q.step.Fault = d.Fault.String()
			}
			continue
		case inject.Depose:
			if q.depose(d.Fault) {
				return inject.Decision{Action: inject.Serve}
			}
			hits = d.Rest
			continue
		}
		return d
	}
}

// depose terminates the client, whose request is on its way, and holds the request. It reports whether it did.
func (q *request) depose(f fault.Fault) bool {
	if q.run.hooks.Depose == nil {
		return false
	}
	hold := q.run.hold(f, q.listener.name, 0)
	crash := history.Step{
		Kind: history.Crash, Actor: q.listener.name, Fault: f.String(), Note: "while " + q.call.Verb + " " + q.call.String() + " is on its way",
		Unrecorded: []history.Arrival{q.step.Arrived()}, // it has arrived now, and is recorded when it is served
	}
	if !q.run.hooks.Depose(f, crash) {
		return false
	}
	q.deposed, q.step.Fault = true, f.String()
	<-hold.done // the client's connection does not matter
	if q.listener.isClosed() {
		abort()
	}
	return true
}

// answer returns the answer of the API server, or the answer of the fault or guard that rejects the
// request; nil if there is no answer.
func (q *request) answer(r *http.Request, before inject.Decision) (*http.Response, error) {
	resp, err := q.rejection(r, before), error(nil)
	if resp == nil && (before.Action == inject.Serve || before.Action == inject.ServeOld) {
		resp, err = q.send(r)
	}
	if resp == nil || err != nil {
		return nil, err
	}
	if q.step.Code == 0 {
		q.step.Code = resp.StatusCode
	}
	switch {
	case q.step.Code == http.StatusGone:
	case q.call.Watch && resp.StatusCode == http.StatusOK:
		q.step.Stream = q.run.newStream()
	case q.number >= 0:
		return q.readAnswer(resp), nil
	}
	return resp, nil
}

// rejection returns the answer to a request that the proxy does not forward; nil if it forwards the
// request.
func (q *request) rejection(r *http.Request, before inject.Decision) *http.Response {
	if before.Action == inject.Reject {
		return response(wire.Rejection(q.call, before.Rejection), r)
	}
	if before.Action == inject.Serve && q.listener.expired(q.run, &q.call) {
		q.step.Code, q.step.Note = http.StatusGone, "the watch has expired"
		return response(wire.Expired(r.Header.Get("Accept")), r)
	}
	return nil
}

// send sends the request to the API server, if the guard permits it.
func (q *request) send(r *http.Request) (*http.Response, error) {
	body, header, permit, denied := q.run.guarded(&q.call, r.URL, r.Header, q.body)
	if denied != nil {
		return response(failed(denied), r), nil
	}
	ctx := r.Context()
	if q.isWrite() {
		ctx = context.WithoutCancel(ctx) // a write takes effect even if the client disconnects
		q.number = q.run.Add(q.step)     // its event may arrive before its answer
	}
	out := r.Clone(ctx)
	out.Header = header.Clone()
	if q.isWrite() {
		out.Header.Del("Accept-Encoding") // the proxy reads the answer
	}
	out.Body, out.ContentLength = http.NoBody, int64(len(body))
	if len(body) > 0 {
		out.Body = io.NopCloser(bytes.NewReader(body))
	}
	if q.asOf > 0 {
		if resp, err := q.sendAsOf(out); resp != nil || err != nil {
			return resp, err
		}
		q.asOf = 0
	}
	resp, err := q.next.RoundTrip(out)
	if err == nil && permit.denies(resp.StatusCode) {
		_ = resp.Body.Close()
		resp = response(failed(permit.Denied), r)
	}
	return resp, err
}

// readAnswer reads the answer to a write and completes the step with it.
func (q *request) readAnswer(resp *http.Response) *http.Response {
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		abort()
	}
	q.run.describe(q.number, &q.step, resp.Header.Get("Content-Type"), body)
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp
}

// record records the request, and returns the number of its step.
func (q *request) record() int {
	if q.number >= 0 {
		q.run.complete(q.number, q.step)
		return q.number
	}
	q.number = q.run.Add(q.step)
	return q.number
}

// apply carries out the effects that follow an answered request.
func (q *request) apply(c inject.Consequence) {
	h := &q.run.hooks
	switch c.Effect {
	case inject.Terminate:
		q.crash(c.Fault, "after ")
	case inject.StartSecond:
		if h.Overlap != nil {
			h.Overlap(q.listener.name, c.Fault)
		}
	case inject.Interfere:
		if h.Interfere != nil {
			h.Interfere(c.Fault, q.step.Object)
		}
	}
}

// crash terminates the client.
func (q *request) crash(f fault.Fault, when string) {
	q.run.Add(history.Step{Kind: history.Crash, Actor: q.listener.name, Fault: f.String(), Note: when + q.call.Verb + " " + q.call.String()})
	if q.run.hooks.Crash != nil {
		q.run.hooks.Crash(q.listener.name, f)
	}
}

// wait holds the answer as the faults require, and returns the number of the step in which the
// client receives it.
func (q *request) wait(r *http.Request, before inject.Decision, after inject.Outcome, n int) int {
	switch {
	case after.Delay != nil:
		q.await(r, q.run.hold(*after.Delay, q.listener.name, q.step.Revision))
		q.awaitClient(r)
		if !after.Lost {
			n = q.run.Add(history.Step{
				Kind: history.Answer, Actor: q.listener.name, Verb: q.call.Verb, Object: q.call.Object, Subresource: q.call.Subresource,
				Code: q.step.Code, Fault: q.step.Fault, Causes: []int{n},
			})
		}
	case before.Action == inject.Drop:
		q.await(r, q.run.hold(fault.Fault{For: clientTimeout}, q.listener.name, 0))
	default:
		q.awaitClient(r)
	}
	return n
}

// await waits until a hold has ended. If the client gives up earlier, the request ends.
func (q *request) await(r *http.Request, h *hold) {
	select {
	case <-h.done:
		if q.listener.isClosed() {
			abort()
		}
	case <-r.Context().Done():
		abort()
	}
}

// awaitClient waits until the client is not paused.
func (q *request) awaitClient(r *http.Request) {
	if h := q.listener.pausedBy(); h != nil {
		select {
		case <-h.done:
		case <-r.Context().Done():
		}
	}
}

// abort ends the request without an answer: the connection of the client breaks.
func abort() { panic(http.ErrAbortHandler) }
