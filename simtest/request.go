package simtest

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/inject"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
	"github.com/rehearse-k8s/rehearse/internal/wire"
)

// clientTimeout is how long a client waits for an answer that does not come.
const clientTimeout = 30 * time.Second

// process executes the request that the schedule has chosen: faults before serving, the API server,
// faults after serving, the record, the client.
func (w *World) process(p *parked) {
	step := w.requestStep(p)
	before, blocked := w.blocked(p)
	if !blocked {
		before = inject.BeforeServing(p.hits)
	}
	switch before.Action {
	case inject.Block:
		w.block(p, before)
		return
	case inject.Pause:
		w.pause(p, before)
		return
	case inject.Crash:
		w.crashBefore(p, before)
		return
	case inject.Contend:
		w.contend(p, before)
		return
	case inject.Depose:
		w.depose(p, before)
		return
	}
	before = w.serveOld(p, before)
	x := w.answer(p, &step, before)
	after := inject.AfterServing(p.hits, before, step.Code)
	step.Fault, step.Reply = cmp.Or(after.Fault, before.Text(), step.Fault), after.Reply
	if p.deposed {
		step.Reply = inject.ReplyLost
	}
	switch {
	case after.Lost:
		x = answer{err: errLost}
	case after.Instead != nil:
		x = answerOf(wire.Rejection(p.call, *after.Instead))
	}
	late := w.lateness(p, before, after)
	split := late == nil && !after.Discarded && !p.deposed && w.splits(p)
	if split {
		step.Reply = inject.ReplyLate
	}
	s := w.add(step)
	for _, revision := range p.wrote {
		w.wrote[revision] = s.N
	}
	switch {
	case after.Discarded, p.deposed:
	case split:
		w.answers = append(w.answers, &parkedAnswer{parked: p, answer: x, age: s.N, served: s.N})
	case late != nil:
		w.answers = append(w.answers, &parkedAnswer{parked: p, answer: x, age: s.N, served: s.N, hold: late, fault: step.Fault})
	default:
		p.from.last = s.N
		w.respond(p, x)
	}
	for _, c := range after.Then {
		w.apply(c, p, step.Object)
	}
}

// answer returns the answer of the API server, or of a fault in its place.
func (w *World) answer(p *parked, step *history.Step, before inject.Decision) answer {
	switch before.Action {
	case inject.Reject:
		a := answerOf(wire.Rejection(p.call, before.Rejection))
		step.Code = a.code
		return a
	case inject.Drop:
		return answer{err: timeoutError{}}
	}
	if a, ok := w.unavailable(p, step); ok {
		return a
	}
	return w.serve(p, step)
}

// lateness returns the hold of a delayed answer; nil: the client receives the answer now.
func (w *World) lateness(p *parked, before inject.Decision, after inject.Outcome) *hold {
	switch {
	case after.Delay != nil:
		return w.newHoldOf(*after.Delay, p.from, w.truth.Revision())
	case before.Action == inject.Drop:
		return &hold{Hold: inject.HoldUntil(w.elapsed() + clientTimeout), since: len(w.record.Steps)}
	}
	return nil
}

// pause stops an instance for a time. The request returns to the queue.
func (w *World) pause(p *parked, d inject.Decision) {
	p.hits = d.Rest
	p.from.pause = w.newHold(d.Fault)
	w.add(history.Step{Kind: history.Fault, Actor: p.from.name, Fault: d.Fault.String(), Note: "paused", Causes: []int{p.cause}})
	w.requests = append(w.requests, p)
}

// depose terminates an instance while its write is on its way, and starts its successor. The write is served
// when the hold of the fault ends.
func (w *World) depose(p *parked, d inject.Decision) {
	i := p.from
	if i.actor.single {
		p.hits = d.Rest
		w.requests = append(w.requests, p)
		return
	}
	w.notRecorded(p.call.Step(i.name))
	s := w.add(history.Step{
		Kind: history.Crash, Actor: i.name, Fault: d.Fault.String(), Causes: []int{i.last},
		Note: "while " + p.call.Verb + " " + p.call.String() + " is on its way",
	})
	onItsWay := *p.request // before its client, which is about to end, marks it as withdrawn
	onItsWay.reply = nil
	w.kill(i)
	p.fail(errDead)
	w.requests = append(w.requests, &parked{
		request: &onItsWay, age: s.N, cause: p.cause, hold: w.newHold(d.Fault), order: p.order, chain: p.chain, delayedBy: d.Fault.String(), deposed: true,
	})
	w.schedule(chain(i.name), nil, s.N, func() { w.begin(i.actor, i.name+"+", d.Fault.String()) })
}

// oldRevisions is how many revisions the lists of an instance are behind after the fault
// time-travel.
const oldRevisions = 3

// crashBefore terminates an instance before its request has an effect.
func (w *World) crashBefore(p *parked, d inject.Decision) {
	away, travel := w.downtime(d.Fault), int64(0)
	if d.OldState {
		away, travel = nil, max(revision, w.truth.Revision()-oldRevisions)
	}
	w.notRecorded(p.call.Step(p.from.name))
	w.crash(p.from, d.Fault.String(), "before "+p.call.Verb+" "+p.call.String(), away, travel)
	p.fail(errDead)
}

// apply executes a consequence of a request that was answered. o is the request's object.
func (w *World) apply(c inject.Consequence, p *parked, o history.Object) {
	switch c.Effect {
	case inject.Terminate:
		w.crash(p.from, c.Fault.String(), "after "+p.call.Verb+" "+p.call.String(), w.downtime(c.Fault), 0)
		p.fail(errDead)
	case inject.StartSecond:
		if !p.from.actor.single {
			w.overlap(p.from, c.Fault)
		}
	case inject.Interfere:
		w.interfere(c.Fault, o, p.url)
	}
}

// downtime returns the hold that delays the restart of a crashed process; nil: it restarts at once.
func (w *World) downtime(f fault.Fault) *hold {
	if f.For == 0 && f.Writes == 0 {
		return nil
	}
	return w.newHold(f)
}

func (w *World) requestStep(p *parked) history.Step {
	step := p.call.Step(p.from.name)
	step.Causes, step.Fault = []int{p.cause}, cmp.Or(p.delayedBy, p.because)
	if step.Name == "" && p.call.GenerateName != "" {
		step.Note = "named " + p.call.GenerateName + "…"
	}
	return step
}

func answerOf(a wire.Answer) answer { return answer{code: a.Code, header: a.Header, body: a.Body} }

// unavailable returns the answer to a watch that the API server cannot serve because of an earlier
// fault.
func (w *World) unavailable(p *parked, step *history.Step) (a answer, ok bool) {
	c := &p.call
	switch {
	case w.expiries.Request(p.from.name, c.Verb, c.Resource, c.Namespace, c.Resumes()):
		a = answerOf(wire.Expired(p.header.Get("Accept")))
		step.Code, step.Note = http.StatusGone, "the watch has expired"
		return a, true
	case p.from.travel > 0 && c.Watch && c.SendInitialEvents:
		// A server of an older release has no watch-lists; the client falls back to a list.
		a = unsupported()
	default:
		return a, false
	}
	step.Code, step.Note = a.code, "the watch has expired"
	return a, true
}

// unsupported returns the answer of a server without watch-lists to a watch-list.
func unsupported() answer {
	return answer{
		code:   http.StatusUnprocessableEntity,
		header: http.Header{"Content-Type": {"application/json"}},
		body:   []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"}`),
	}
}

// serve sends a request to the API server, and completes its step.
func (w *World) serve(p *parked, step *history.Step) answer {
	w.clock.set()
	x := w.served(p)
	step.Code = x.code
	changes, err := w.takeWrites()
	if err != nil {
		w.fail("the record is whole", err.Error())
	}
	if w.plan.Objects {
		step.Changes = w.truth.Contents(changes)
	}
	w.followDeletions(p, x.code, changes)
	for _, c := range changes {
		p.wrote = append(p.wrote, c.Revision)
		step.Before, step.Revision = c.Before, c.Revision
		if !verdict.Bookkeeping(c.Key) {
			w.writes++
			w.written.Add(w.elapsed(), quiet)
			w.activity.Add(w.written.Last, p.from.name, c)
		}
	}
	if x.feed != nil {
		w.streams++
		step.Stream = w.streams
		p.stream = &stream{
			n: w.streams, to: p.from, call: p.call, mediaType: x.header.Get("Content-Type"), feed: x.feed,
			chain: p.chain, initial: p.call.SendInitialEvents, opened: len(w.record.Steps),
		}
		return x.answer
	}
	if x.described {
		if step.Name == "" {
			step.Name = x.object.Name
		}
		if p.call.Verb != "list" {
			step.UID = x.object.UID
		}
		if len(changes) == 0 {
			step.Revision = x.revision
			if step.IsWrite() {
				step.Before = x.revision // the write changed nothing
			}
		}
	}
	return x.answer
}

// fill turns a parked request into an exchange with the server.
func (w *World) fill(x *exchange, p *parked) {
	*x = exchange{
		done: x.done, out: x.out, handler: w.server.handler(p.from.user()), run: w.run,
		method: p.method, url: p.url, header: p.header, body: p.body, watch: p.call.Watch, actor: p.from.user(),
	}
	if p.call.GenerateName != "" {
		key := p.from.name + " " + p.call.Resource + " " + p.call.Namespace + " " + p.call.GenerateName
		w.counts[key]++
		x.names = int64(fault.Draw(w.plan.Seed, key, strconv.Itoa(w.counts[key]))>>1) | 1
	}
	if w.isService(p) {
		x.body = w.withClusterIP(p)
	}
	if old := cmp.Or(p.asOf, p.from.travel); old > 0 && p.call.Verb == "list" {
		x.url = wire.AsOf(p.url, old)
	}
}

// respond passes an answer to the goroutine that waits for it.
func (w *World) respond(p *parked, a answer) {
	if p.reply == nil {
		return
	}
	if p.stream == nil {
		p.reply <- a.to(p.asker)
		return
	}
	s := p.stream
	s.body = newBody(p.asker.Context(), s.feed.cancel)
	p.from.streams = append(p.from.streams, s)
	r := a.to(p.asker)
	if r.response != nil {
		r.response.Body, r.response.ContentLength = s.body, -1
	}
	p.reply <- r
}

// deliverAnswer delivers a delayed answer.
func (w *World) deliverAnswer(a *parkedAnswer) {
	s := w.add(history.Step{
		Kind: history.Answer, Actor: a.from.name, Verb: a.call.Verb, Object: a.call.Object, Subresource: a.call.Subresource,
		Code: a.answer.code, Fault: a.fault, Causes: []int{a.served},
	})
	a.from.last = s.N
	w.respond(a.parked, a.answer)
}

// overlap starts a second instance while the first one continues for a while.
func (w *World) overlap(i *instance, f fault.Fault) {
	h := w.newHold(f)
	next := w.begin(i.actor, i.name+"+", f.String())
	w.schedule(chain(i.name), h, next.last, func() {
		if !i.dead {
			w.add(history.Step{Kind: history.Crash, Actor: i.name, Fault: f.String(), Note: "the old instance exits"})
			w.kill(i)
		}
	})
}
