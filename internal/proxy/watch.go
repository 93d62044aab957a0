package proxy

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"slices"
	"sync"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/inject"
	"github.com/rehearse-k8s/rehearse/internal/wire"
)

// stream is the body of a watch, as the client reads it: the frames of the server, each when it is
// due.
type stream struct {
	*request
	ctx       context.Context
	mediaType string
	body      io.Closer     // the body of the server's answer
	frames    <-chan []byte // from the server; nil once it has ended the stream
	closed    chan struct{}
	once      sync.Once // closes closed

	initial   bool     // the initial events are not complete
	pending   []*frame // in their order
	buffer    []byte   // the bytes that the client reads next
	delivered []int64  // the revisions of the events in the buffer
	ended     bool
}

// frame is one watch event on its way to the client.
type frame struct {
	inject.Delivery
	raw   []byte
	event wire.Event
	hold  *hold
	// because is the text of the fault that delays or changes the event.
	because string
	// initial is true if the event contains an object that existed before the watch.
	initial bool
	// ignored is true if the event has no faults and is not recorded.
	ignored bool
}

// newStream returns the body of a watch. It forwards a stream in an unknown encoding unchanged.
func newStream(ctx context.Context, q *request, resp *http.Response) io.ReadCloser {
	mediaType := resp.Header.Get("Content-Type")
	splitter, err := wire.NewSplitter(mediaType)
	if err != nil {
		return resp.Body
	}
	frames := make(chan []byte, 64)
	s := &stream{
		request: q, ctx: ctx, mediaType: mediaType, body: resp.Body, frames: frames, closed: make(chan struct{}),
		initial: q.call.SendInitialEvents,
	}
	go split(resp.Body, splitter, frames, s.closed)
	return s
}

// split reads frames until the server ends the stream or the client closes it.
func split(body io.Reader, splitter *wire.Splitter, frames chan<- []byte, closed <-chan struct{}) {
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
			case <-closed:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Close implements io.Closer.
func (s *stream) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.body.Close()
}

// Read implements io.Reader: it waits for the next event to deliver.
func (s *stream) Read(p []byte) (int, error) {
	for len(s.buffer) == 0 {
		s.observe() // the client has received the buffer
		if s.ended {
			return 0, io.EOF
		}
		if s.connection.isLost() {
			s.pending = nil
			s.cut(s.connection.because, "the connection is lost")
			return 0, io.EOF
		}
		s.deliverPending()
		if len(s.buffer) == 0 && !s.ended && !s.next() {
			return 0, io.EOF
		}
	}
	n := copy(p, s.buffer)
	s.buffer = s.buffer[n:]
	return n, nil
}

// observe records that the client has received the events in the buffer.
func (s *stream) observe() {
	for _, revision := range s.delivered {
		s.run.delivered(s.listener.name, s.call.Resource, revision)
	}
	s.buffer, s.delivered = nil, s.delivered[:0]
}

// next waits for frames of the server, or for the end of the hold that blocks the stream. It
// returns false if the client has disconnected.
func (s *stream) next() bool {
	if s.frames == nil && len(s.pending) == 0 {
		s.cut("", "the server ended it")
		return true
	}
	var over <-chan struct{}
	if h := s.blockedBy(); h != nil {
		over = h.done
	}
	select {
	case raw, ok := <-s.frames:
		for more := len(s.frames); ok; more-- {
			s.accept(raw)
			if more <= 0 {
				return true
			}
			raw, ok = <-s.frames
		}
		s.frames = nil
	case <-over:
	case <-s.connection.lost: // Read ends the stream
	case <-s.ctx.Done():
		return false
	}
	return true
}

// accept describes a frame and decides what happens when it is due.
func (s *stream) accept(raw []byte) {
	f := &frame{raw: raw, initial: s.initial, ignored: true, Delivery: inject.OnEvent(nil)}
	var because string // the fault that holds the previous event, and so this one
	if n := len(s.pending); n > 0 && !s.pending[n-1].hold.over() {
		because, f.hold = s.pending[n-1].because, s.pending[n-1].hold
	}
	f.because = because
	s.pending = append(s.pending, f)
	var err error
	if f.event, err = wire.DescribeEvent(s.mediaType, raw); err != nil || s.ignores(&f.event) {
		return
	}
	f.ignored = false
	s.noteRevision(&f.event)
	f.Delivery = inject.OnEvent(s.run.meet(f.event.Item(s.listener.name, s.call.Resource, s.initial)))
	if f.event.InitialEnd {
		s.initial, f.initial = false, true
	}
	if f.Hold != nil {
		f.hold = s.run.hold(*f.Hold, s.listener.name, f.event.Revision)
	} else if b := s.listener.lagging(s.run); b != nil && f.hold.over() {
		f.hold, because = b.hold, b.fault.String()
	}
	f.because = cmp.Or(f.Fault, because)
}

// ignores reports whether the object of an event does not belong to the run.
func (s *stream) ignores(e *wire.Event) bool {
	if s.run.hooks.Ignore == nil || e.Name == "" || e.Type == "BOOKMARK" || e.Type == "ERROR" {
		return false
	}
	o := e.Object
	o.Resource = s.call.Resource
	return s.run.hooks.Ignore(o)
}

// noteRevision records the revision of the object in an event.
func (s *stream) noteRevision(e *wire.Event) {
	if e.Type == "BOOKMARK" || e.Type == "ERROR" {
		return
	}
	o := e.Object
	o.Resource = s.call.Resource
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	s.run.seen(o, e.Revision)
}

// blockedBy returns the hold of the oldest event, or of the client; nil if there is none.
func (s *stream) blockedBy() *hold {
	if len(s.pending) == 0 {
		return nil
	}
	if h := s.pending[0].hold; !h.over() {
		return h
	}
	return s.listener.pausedBy()
}

// deliverPending appends the events that are due to the buffer.
func (s *stream) deliverPending() {
	for len(s.pending) > 0 && s.blockedBy() == nil && !s.ended {
		f := s.pending[0]
		if f.End {
			s.end(f)
			return
		}
		s.pending = s.pending[1:]
		s.deliver(f)
	}
}

// deliver appends an event to the buffer, as often as its faults require.
func (s *stream) deliver(f *frame) {
	switch {
	case f.ignored:
		s.fill(f.raw)
		return
	case f.Copies == 0:
		s.run.Add(s.frameStep(f, f.because, inject.ReplyLost))
		return
	}
	for range f.Copies {
		s.listener.observe(s.run, s.run.Add(s.frameStep(f, f.because, "")))
		s.fill(f.raw)
	}
	s.delivered = append(s.delivered, f.event.Revision)
}

// fill appends a frame to the buffer. A single frame is not copied.
func (s *stream) fill(raw []byte) {
	if len(s.buffer) == 0 {
		s.buffer = slices.Clip(raw)
		return
	}
	s.buffer = append(s.buffer, raw...)
}

// end ends the stream instead of delivering an event.
func (s *stream) end(f *frame) {
	note := ""
	if f.Expire {
		note = "it has expired"
		for _, lost := range s.pending {
			if !lost.ignored {
				s.run.Add(s.frameStep(lost, f.Fault, inject.ReplyLost))
			}
		}
		s.listener.expire(s.run, s.call.Resource, s.call.Namespace)
	}
	s.cut(f.Fault, note)
}

// cut records that the stream has ended.
func (s *stream) cut(because, note string) {
	s.ended = true
	s.listener.observe(s.run, s.run.Add(history.Step{
		Kind: history.Cut, Actor: s.listener.name, Object: history.Object{Resource: s.call.Resource}, Stream: s.step.Stream, Fault: because, Note: note,
	}))
}

// frameStep returns the step of an event.
func (s *stream) frameStep(f *frame, because, reply string) history.Step {
	step := history.Step{
		Kind: history.Frame, Actor: s.listener.name, Object: f.event.Object, Type: f.event.Type, Stream: s.step.Stream,
		Code: int(f.event.Code), Revision: f.event.Revision, Digest: f.event.Digest, Fault: because, Reply: reply,
	}
	step.Resource = s.call.Resource
	if f.initial {
		step.Note = "existed before the watch"
	}
	return step
}
