package simtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/rehearse-k8s/rehearse/internal/inject"
	"github.com/rehearse-k8s/rehearse/internal/wire"
)

// The code in this file runs in the bubble, on the goroutines of controllers: a request is
// described, parked, and waits for the schedule.

// errDead is the result of every request of a terminated instance, so that its goroutines can
// return.
var errDead = errors.New("simtest: this instance of the controller was terminated")

// request is one request of an actor.
type request struct {
	from   *instance
	method string
	url    string
	header http.Header
	body   []byte
	call   wire.Call
	reply  chan reply // room for one; nil if no goroutine waits (interference)
	asker  *http.Request

	gone    bool      // the client has given up; guarded by World.mu
	because string    // the fault that caused it
	deletes *deletion // what it deletes because of a fault
}

// reply is what RoundTrip returns.
type reply struct {
	response *http.Response
	err      error
}

// RoundTrip implements http.RoundTripper for the clients of one instance.
func (i *instance) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	q := &request{from: i, method: r.Method, url: r.URL.String(), header: r.Header, reply: make(chan reply, 1), asker: r}
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil {
			return nil, err
		}
		q.body = body
	}
	q.call = wire.DescribeCall(r.Method, r.URL, r.Header, q.body)
	if !i.world.park(q) {
		return nil, errDead
	}
	select {
	case a := <-q.reply:
		return a.response, a.err
	case <-r.Context().Done():
		i.world.withdraw(q)
		i.world.afterOthers("cancelled " + q.order())
		return nil, context.Cause(r.Context())
	}
}

// timeoutError is the error of a client that has waited for an answer until its timeout.
type timeoutError struct{}

func (timeoutError) Error() string {
	return "net/http: request canceled (timeout awaiting response headers)"
}
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

// errLost is the error of a client whose connection breaks after it has sent a request.
var errLost = errors.New("http2: client connection lost")

// answer is the API server's answer to a request, or that of a fault.
type answer struct {
	code   int
	header http.Header
	body   []byte
	err    error // returned to the client instead of an answer
}

func (a answer) to(r *http.Request) reply {
	if a.err != nil {
		return reply{err: a.err}
	}
	return reply{response: &http.Response{
		Status: http.StatusText(a.code), StatusCode: a.code, Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: a.header, Request: r, Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)),
	}}
}

// stream is a watch inside the bubble: the frames that the schedule has not delivered yet, and
// the body that the client reads.
type stream struct {
	n         int // number of the stream in the run
	to        *instance
	call      wire.Call
	chain     chain
	mediaType string
	feed      *feed
	body      *body
	opened    int  // step of the watch request
	initial   bool // the initial events are not complete
	pending   []*frame
	ended     bool // the server has ended the watch; all frames are in pending
}

// frame is a watch event that has not been delivered.
type frame struct {
	raw   []byte
	event wire.Event
	age   int
	cause int
	inject.Delivery
	hold *hold
}

// body is what the client reads frames from.
type body struct {
	mu     sync.Mutex
	buf    []byte
	err    error // returned when buf is empty
	closed bool
	wake   chan struct{} // room for one
	close  func()        // ends the watch at the server
}

func newBody(ctx context.Context, cancel func()) *body {
	b := &body{wake: make(chan struct{}, 1)}
	stop := context.AfterFunc(ctx, func() { b.end(ctx.Err()) })
	b.close = func() { stop(); cancel() }
	return b
}

func (b *body) push(frame []byte) {
	b.mu.Lock()
	b.buf = append(b.buf, frame...)
	b.mu.Unlock()
	b.poke()
}

// end makes Read return err once the client has read the buffered frames.
func (b *body) end(err error) {
	b.mu.Lock()
	if b.err == nil {
		b.err = err
	}
	b.mu.Unlock()
	b.poke()
}

func (b *body) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	for {
		b.mu.Lock()
		switch {
		case b.closed:
			b.mu.Unlock()
			return 0, http.ErrBodyReadAfterClose
		case len(b.buf) > 0:
			n := copy(p, b.buf)
			b.buf = b.buf[n:]
			b.mu.Unlock()
			return n, nil
		case b.err != nil:
			err := b.err
			b.mu.Unlock()
			return 0, err
		}
		b.mu.Unlock()
		<-b.wake
	}
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.mu.Lock()
	first := !b.closed
	b.closed = true
	b.mu.Unlock()
	if first {
		b.close()
		b.poke()
	}
	return nil
}

// over reports whether the client reads nothing more.
func (b *body) over() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed || b.err != nil
}
