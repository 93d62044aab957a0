package proxy

import (
	"fmt"
	"io"
	"net/http"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/wire"
)

// stream is a watch of the client.
type stream struct {
	*exchange
	number    int
	mediaType string
	initial   bool // the events that tell what existed are not over
	flush     func() error

	held    *hold // frames are kept back
	because fault.Fault
	frames  []frame
}

// frame is one watch event on its way.
type frame struct {
	raw   []byte
	event wire.Event
	fault string
	twice bool
	apart bool // of an object that is not the run's
}

// watch passes a stream on, frame by frame.
func (q *exchange) watch(resp *http.Response, step history.Step) {
	s := &stream{exchange: q, mediaType: resp.Header.Get("Content-Type"), initial: q.call.SendInitialEvents, flush: http.NewResponseController(q.w).Flush}
	q.run.mu.Lock()
	q.run.streams++
	s.number = q.run.streams
	q.run.mu.Unlock()
	step.Stream = s.number
	q.note(step)
	copyHeader(q.w.Header(), resp.Header)
	q.w.WriteHeader(resp.StatusCode)
	_ = s.flush()
	splitter, err := wire.NewSplitter(s.mediaType)
	if err != nil { // nobody here knows its frames: they are passed on as they come
		s.copy(resp.Body)
		return
	}
	frames, ended := make(chan []byte, 64), make(chan struct{})
	defer close(ended)
	go split(resp.Body, splitter, frames, ended)
	s.pump(frames)
}

// split reads frames until the server ends the stream or nobody wants more.
func split(body io.Reader, splitter *wire.Splitter, frames chan<- []byte, ended <-chan struct{}) {
	defer close(frames)
	b := buffers.Get()
	defer buffers.Put(b)
	for {
		n, err := body.Read(b)
		if n > 0 {
			if _, err := splitter.Write(b[:n]); err != nil {
				return
			}
		}
		for {
			raw, ok := splitter.Next()
			if !ok {
				break
			}
			select {
			case frames <- raw:
			case <-ended:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pump delivers frames until the stream ends.
func (s *stream) pump(frames <-chan []byte) {
	for {
		var over <-chan struct{}
		if s.held != nil {
			over = s.held.done
		}
		select {
		case raw, ok := <-frames:
			if !ok {
				if s.held != nil && !s.waitFor(s.held) {
					return
				}
				s.letGo()
				s.cut("", "the server ended it")
				return
			}
			if !s.take(raw) {
				return
			}
			for more := len(frames); more > 0; more-- { // one flush for those that are here
				raw, ok := <-frames
				if ok && !s.take(raw) {
					return
				}
			}
			if s.flush() != nil {
				return
			}
		case <-over:
			if !s.letGo() {
				return
			}
		case <-s.r.Context().Done():
			return
		}
	}
}

// take has a frame meet the faults, and delivers it or keeps it back. It tells whether the
// stream goes on.
func (s *stream) take(raw []byte) bool {
	e, err := wire.DescribeEvent(s.mediaType, raw)
	if err != nil {
		return s.write(raw)
	}
	f := frame{raw: raw, event: e, apart: s.apart(&e)}
	if f.apart {
		return s.pass(f)
	}
	s.seen(&e)
	hits := s.run.meet(e.Item(s.door.name, s.call.Resource, s.initial))
	if e.InitialEnd {
		s.initial = false
	}
	for _, hit := range hits {
		switch hit.Kind {
		case fault.KindLag, fault.KindRelist:
			if s.held == nil {
				s.held, s.because = s.run.keep(hit, s.door.name, e.Revision), hit
			}
			f.fault = hit.String()
		case fault.KindDisconnect:
			s.cut(hit.String(), "")
			return false
		case fault.KindDropBookmark, fault.KindLoseEvent:
			s.run.Add(s.stepOf(&f, hit.String(), "lost"))
			return true
		case fault.KindRepeatEvent:
			f.fault, f.twice = hit.String(), true
		}
	}
	return s.pass(f)
}

// pass delivers a frame, or queues it behind those that are kept back.
func (s *stream) pass(f frame) bool {
	if s.held != nil {
		if f.fault == "" {
			f.fault = s.because.String()
		}
		s.frames = append(s.frames, f)
		return true
	}
	if h := s.door.standing(); h != nil && !s.waitFor(h) {
		return false
	}
	return s.deliver(&f)
}

// apart tells whether an event is of an object that is not the run's.
func (s *stream) apart(e *wire.Event) bool {
	if s.run.hooks.Apart == nil || e.Name == "" || e.Type == "BOOKMARK" || e.Type == "ERROR" {
		return false
	}
	o := e.Object
	o.Resource = s.call.Resource
	return s.run.hooks.Apart(o)
}

// seen notes the revision that an event shows of its object.
func (s *stream) seen(e *wire.Event) {
	if e.Type == "BOOKMARK" || e.Type == "ERROR" {
		return
	}
	o := e.Object
	o.Resource = s.call.Resource
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	s.run.seen(o, e.Revision)
}

func (s *stream) stepOf(f *frame, because, reply string) history.Step {
	step := history.Step{
		Kind: history.Frame, Actor: s.door.name, Object: f.event.Object, Type: f.event.Type, Stream: s.number,
		Code: int(f.event.Code), Revision: f.event.Revision, Digest: f.event.Digest, Fault: because, Reply: reply,
	}
	step.Resource = s.call.Resource
	if s.initial || f.event.InitialEnd {
		step.Note = "existed before the watch"
	}
	return step
}

// deliver gives a frame to the client, and tells whether the client took it.
func (s *stream) deliver(f *frame) bool {
	if f.apart {
		return s.write(f.raw)
	}
	times := 1
	if f.twice {
		times = 2
	}
	for range times {
		s.note(s.stepOf(f, f.fault, ""))
		if !s.write(f.raw) {
			return false
		}
		s.run.tell(s.door.name, s.call.Resource, f.event.Revision)
	}
	return true
}

func (s *stream) write(raw []byte) bool {
	_, err := s.w.Write(raw)
	return err == nil
}

// letGo ends a hold: what was kept back arrives, or the watch has expired. It tells whether
// the stream goes on.
func (s *stream) letGo() bool {
	frames, because, held := s.frames, s.because, s.held
	s.frames, s.held = nil, nil
	if held == nil {
		return true
	}
	if because.Kind == fault.KindRelist {
		for i := range frames {
			if !frames[i].apart {
				s.run.Add(s.stepOf(&frames[i], because.String(), "lost"))
			}
		}
		s.door.expire(s.run, s.call.Resource, s.call.Namespace)
		s.cut(because.String(), "it has expired")
		return false
	}
	for i := range frames {
		if !s.deliver(&frames[i]) {
			return false
		}
	}
	return s.flush() == nil
}

// cut records that the stream has ended.
func (s *stream) cut(because, note string) {
	s.note(history.Step{Kind: history.Cut, Actor: s.door.name, Object: history.Object{Resource: s.call.Resource}, Stream: s.number, Fault: because, Note: note})
}

// copy passes a stream on whose frames nobody knows.
func (s *stream) copy(body io.Reader) {
	b := buffers.Get()
	defer buffers.Put(b)
	for {
		n, err := body.Read(b)
		if n > 0 && (!s.write(b[:n]) || s.flush() != nil) || err != nil {
			return
		}
	}
}

// expire has the client's next watch of a resource from a revision be answered 410.
func (d *Door) expire(r *Run, resource, namespace string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expired[expiredKey(r, resource, namespace)] = true
}

// expires tells whether a request is such a watch. A list makes it unnecessary.
func (d *Door) expires(q *exchange) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &q.call
	key := expiredKey(q.run, c.Resource, c.Namespace)
	switch {
	case c.Verb == "list":
		delete(d.expired, key)
	case c.Watch && c.FromRevision != "" && !c.SendInitialEvents && d.expired[key]:
		delete(d.expired, key)
		return true
	}
	return false
}

// expiredKey names a watch of a run: one that has ended leaves nothing to the next.
func expiredKey(r *Run, resource, namespace string) string {
	return fmt.Sprintf("%d %s %s", r.start.UnixNano(), resource, namespace)
}
