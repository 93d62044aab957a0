package simtest

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/truth"
	"github.com/rehearse-k8s/rehearse/internal/wire"
)

// What the schedule does: carry out requests, deliver events and answers, and let
// go wrong what the plan says.

// clientPatience is how long a client waits for an answer that does not come.
const clientPatience = 30 * time.Second

// holdOf is what a fault keeps back from now on.
func (w *World) holdOf(f fault.Fault) *hold {
	h := &hold{since: len(w.record.Steps)}
	switch {
	case f.For > 0:
		h.until = w.elapsed() + f.For
	case f.Writes > 0:
		h.writes = w.writes + f.Writes
	}
	return h
}

// lateRequest is the hold of a request that a fault keeps back.
func (w *World) lateRequest(p *parked) *hold {
	for _, f := range p.hits {
		if f.Kind == fault.KindLateRequest {
			return w.gate(w.holdOf(f), f, p.from, w.truth.Read())
		}
	}
	return nil
}

// gate has a hold end with an event that is newer than what is held, if its fault says so.
func (w *World) gate(h *hold, f fault.Fault, to *instance, held int64) *hold {
	if f.Until != "" {
		h.event = &awaited{to: to, resource: f.Until, revision: cmp.Or(f.UntilRevision, held+1)}
	}
	return h
}

// answerTo carries a request out, or does to it what the plan says.
func (w *World) answerTo(p *parked) {
	step := w.requestStep(p)
	a, serve := w.refusal(p, &step)
	if step.Kind == "" {
		return // the fault has recorded itself
	}
	fate := fate{answer: a, deliver: true}
	if serve {
		fate.answer = w.carryOut(p, &step)
	}
	w.decideFate(p, &step, &fate)
	s := w.add(step)
	for _, revision := range p.wrote {
		w.wrote[revision] = s.N
	}
	switch {
	case fate.late != nil:
		w.answers = append(w.answers, &parkedAnswer{parked: p, answer: fate.answer, age: s.N, served: s.N, hold: fate.late, fault: step.Fault})
	case fate.deliver:
		p.from.last = s.N
		w.give(p, fate.answer)
	}
	for _, do := range fate.then {
		do()
	}
}

// fate is what becomes of an answer.
type fate struct {
	answer  answer
	deliver bool
	late    *hold    // it is held back
	then    []func() // what happens right after the step
}

// decideFate applies the faults that act once a request has been answered.
func (w *World) decideFate(p *parked, step *history.Step, x *fate) {
	for _, f := range p.hits {
		switch f.Kind {
		case fault.KindTimeout:
			if step.Fault == f.String() {
				x.late = &hold{until: w.elapsed() + clientPatience, since: len(w.record.Steps)}
			}
		case fault.KindLostAnswer:
			step.Fault, step.Reply, x.answer = f.String(), "lost", answer{err: errLost}
		case fault.KindLateAnswer:
			step.Fault, step.Reply, x.late = f.String(), "late", w.gate(w.holdOf(f), f, p.from, w.truth.Read())
		case fault.KindCrashAfter:
			step.Reply, x.deliver = "lost", false
			x.then = append(x.then, func() {
				w.crash(p.from, f.String(), "after "+p.call.Verb+" "+p.call.String(), w.away(f), 0)
				p.refuse(errDead)
			})
		case fault.KindOverlap:
			if !p.from.actor.single {
				x.then = append(x.then, func() { w.overlap(p.from, f) })
			}
		case fault.KindDelete, fault.KindEvict, fault.KindLabel, fault.KindFinalizer:
			if step.Code/100 == 2 {
				object := step.Object
				x.then = append(x.then, func() { w.interfere(f, object, p.url) })
			}
		}
	}
}

func (w *World) requestStep(p *parked) history.Step {
	c := &p.call
	step := history.Step{
		Kind: history.Request, Actor: p.from.name, Verb: c.Verb, Object: c.Object,
		Subresource: c.Subresource, Query: c.Query, Digest: c.Digest,
		Guarded: p.refusable(),
		Causes:  []int{p.cause},
		Fault:   p.because,
	}
	if step.Name == "" && c.GenerateName != "" {
		step.Note = "named " + c.GenerateName + "…"
	}
	if p.hold != nil {
		step.Fault = p.faultText(fault.KindLateRequest)
	}
	return step
}

// refusable tells whether the API refuses the write if what it was decided on has
// changed. A create with a name of the caller's choice is refused if it is repeated.
func (p *parked) refusable() bool {
	return p.call.Preconditioned || p.call.Verb == "create" && p.call.GenerateName == ""
}

func (p *parked) faultText(kind fault.Kind) string {
	for _, f := range p.hits {
		if f.Kind == kind {
			return f.String()
		}
	}
	return ""
}

// refusal is what faults say to a request before the API sees it. serve is true if
// the API is to see it.
func (w *World) refusal(p *parked, step *history.Step) (a answer, serve bool) {
	for _, f := range p.hits {
		switch f.Kind {
		case fault.KindConflict:
			a = answered(wire.Conflict(p.call))
		case fault.KindThrottle:
			a = answered(wire.Throttled(max(f.For, time.Second)))
		case fault.KindError:
			a = answered(wire.InternalError(p.call))
		case fault.KindTimeout:
			a = answer{err: timeoutError{}}
			step.Reply = "lost"
		case fault.KindCrashBefore, fault.KindCrash:
			w.crash(p.from, f.String(), "before "+p.call.Verb+" "+p.call.String(), w.away(f), 0)
			p.refuse(errDead)
			step.Kind = ""
			return a, false
		case fault.KindTimeTravel:
			w.crash(p.from, f.String(), "before "+p.call.Verb+" "+p.call.String(), nil, max(revision, w.truth.Read()-travelBack))
			p.refuse(errDead)
			step.Kind = ""
			return a, false
		case fault.KindPause:
			p.hits = slices.DeleteFunc(p.hits, func(g fault.Fault) bool { return g == f })
			p.from.pause = w.holdOf(f)
			w.add(history.Step{Kind: history.Fault, Actor: p.from.name, Fault: f.String(), Note: "stands still", Causes: []int{p.cause}})
			w.requests = append(w.requests, p)
			step.Kind = ""
			return a, false
		default:
			continue
		}
		step.Fault, step.Code = f.String(), a.code
		return a, false
	}
	if expired, code := w.refused(p); expired != nil {
		step.Code, step.Note = code, "the watch has expired"
		return *expired, false
	}
	return a, true
}

// travelBack is how many revisions a time traveller's lists lie back.
const travelBack = 3

// away is how long a crashed process takes to come back; nil: at once.
func (w *World) away(f fault.Fault) *hold {
	if f.For == 0 && f.Writes == 0 {
		return nil
	}
	return w.holdOf(f)
}

func answered(a wire.Answer) answer { return answer{code: a.Code, header: a.Header, body: a.Body} }

// refused tells a watch that it has expired, once after its stream was cut so.
func (w *World) refused(p *parked) (*answer, int) {
	c := &p.call
	key := p.from.name + " " + c.Resource + " " + c.Namespace
	if c.Verb == "list" {
		delete(w.expired, key) // the client has listed without being told
	}
	if c.Watch && c.FromRevision != "" && !c.SendInitialEvents && w.expired[key] {
		delete(w.expired, key)
		a := answered(wire.Expired())
		return &a, a.code
	}
	if p.from.travel > 0 && c.Watch && c.SendInitialEvents {
		// An older server has no watch-lists; the client falls back to a list.
		a := unsupported()
		return &a, a.code
	}
	return nil, 0
}

// unsupported is how a server without watch-lists answers one.
func unsupported() answer {
	return answer{
		code:   http.StatusUnprocessableEntity,
		header: http.Header{"Content-Type": {"application/json"}},
		body:   []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"}`),
	}
}

// carryOut lets the API serve a request and completes its step.
func (w *World) carryOut(p *parked, step *history.Step) answer {
	w.clock.set()
	x := w.served(p)
	step.Code = x.code
	changes, err := w.truth.Follow()
	if err != nil {
		w.fail("the record is whole", err.Error())
	}
	if w.plan.Objects {
		step.Changes = w.truth.Contents(changes)
	}
	for _, c := range changes {
		p.wrote = append(p.wrote, c.Revision)
		step.Before, step.Revision = c.Before, c.Revision
		if !truth.Bookkeeping(c.Key) {
			w.writes++
			w.lastWrite = w.elapsed()
		}
	}
	if x.feed != nil {
		w.streams++
		step.Stream = w.streams
		p.stream = &stream{
			n: w.streams, to: p.from, call: p.call, mediaType: x.header.Get("Content-Type"), feed: x.feed,
			initial: p.call.SendInitialEvents, opened: len(w.record.Steps),
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
				step.Before = x.revision // it changed nothing
			}
		}
	}
	return x.answer
}

// fill turns a parked request into one for the server.
func (w *World) fill(x *exchange, p *parked) {
	*x = exchange{
		done: x.done, out: x.out, door: w.server.door(p.from.user()), run: w.run,
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
	if p.from.travel > 0 && p.call.Verb == "list" {
		x.url = asOf(p.url, p.from.travel)
	}
}

// asOf rewrites a list so that it is answered as of an older revision.
func asOf(target string, revision int64) string {
	u, err := url.Parse(target)
	if err != nil {
		return target
	}
	q := u.Query()
	q.Set("resourceVersion", strconv.FormatInt(revision, 10))
	q.Set("resourceVersionMatch", "Exact")
	u.RawQuery = q.Encode()
	return u.String()
}

// give hands an answer to the goroutine that waits for it.
func (w *World) give(p *parked, a answer) {
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

// deliverAnswer hands over an answer that was held back.
func (w *World) deliverAnswer(a *parkedAnswer) {
	s := w.add(history.Step{
		Kind: history.Answer, Actor: a.from.name, Verb: a.call.Verb, Object: a.call.Object, Subresource: a.call.Subresource,
		Code: a.answer.code, Fault: a.fault, Causes: []int{a.served},
	})
	a.from.last = s.N
	w.give(a.parked, a.answer)
}

// meetFrame lets a fault act on a watch event that has just come into being.
func (w *World) meetFrame(s *stream, f *frame, hit fault.Fault) {
	f.fault = hit.String()
	switch hit.Kind {
	case fault.KindLag:
		f.hold = w.keepBack(s, f, hit)
	case fault.KindRelist:
		f.hold, f.cut, f.expire = w.keepBack(s, f, hit), true, true
	case fault.KindDisconnect:
		f.cut = true
	case fault.KindDropBookmark, fault.KindLoseEvent:
		f.lose = true
	case fault.KindRepeatEvent:
		f.twice = true
	}
}

// keepBack records that a stream stands still from an event on.
func (w *World) keepBack(s *stream, f *frame, hit fault.Fault) *hold {
	object := f.event.Object
	object.Resource = s.call.Resource
	w.add(history.Step{
		Kind: history.Fault, Actor: s.to.name, Object: object, Type: f.event.Type, Stream: s.n, Revision: f.event.Revision,
		Fault: hit.String(), Note: "is kept back, with all that follows on its stream", Causes: []int{f.cause},
	})
	return w.gate(w.holdOf(hit), hit, s.to, f.event.Revision)
}

// deliver lets the oldest event of a stream have its turn.
func (w *World) deliver(s *stream) {
	f := s.pending[0]
	if f.cut {
		note := "the stream ends"
		if f.expire {
			w.expired[s.to.name+" "+s.call.Resource+" "+s.call.Namespace] = true
			note = fmt.Sprintf("the stream expires; %d events are left to the next list", len(s.pending))
		}
		w.cutStream(s, f.fault, note)
		return
	}
	s.pending = s.pending[1:]
	step := history.Step{
		Kind: history.Frame, Actor: s.to.name, Object: f.event.Object, Type: f.event.Type, Stream: s.n,
		Revision: f.event.Revision, Code: int(f.event.Code), Digest: f.event.Digest, Fault: f.fault, Causes: []int{f.cause},
	}
	step.Resource = s.call.Resource
	if f.event.InitialEnd {
		step.Note = "all that existed has been told"
	}
	if s.to.told == nil {
		s.to.told = map[string]int64{}
	}
	s.to.told[s.call.Resource] = max(s.to.told[s.call.Resource], f.event.Revision)
	if f.lose {
		step.Reply = "lost"
		w.add(step)
		return
	}
	if f.twice {
		step.Reply = "twice"
		s.body.push(f.raw)
	}
	s.body.push(f.raw)
	s.to.last = w.add(step).N
}

// cutStream ends a watch for its client.
func (w *World) cutStream(s *stream, because, note string) {
	step := w.add(history.Step{Kind: history.Cut, Actor: s.to.name, Object: history.Object{Resource: s.call.Resource}, Stream: s.n, Fault: because, Note: note, Causes: []int{s.opened}})
	s.to.last = step.N
	s.pending, s.ended = nil, true
	s.feed.cancel()
	s.body.end(io.EOF)
}

// overlap begins a second instance while the first lives on.
func (w *World) overlap(i *instance, f fault.Fault) {
	h := w.holdOf(f)
	next := w.begin(i.actor, i.name+"+", f.String())
	w.schedule(h, next.last, func() {
		if !i.dead {
			w.add(history.Step{Kind: history.Crash, Actor: i.name, Fault: f.String(), Note: "the old instance ends"})
			w.kill(i)
		}
	})
}
