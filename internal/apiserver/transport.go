package apiserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/rehearse-k8s/rehearse/internal/store"
)

// RoundTripper is the in-process transport: client-go uses it as its transport, and each request goes directly to the server's
// handler.
//
// An ordinary request runs on the caller's goroutine, and its answer is buffered in memory. A request with a streaming answer
// (watch, log, proxy) runs on a goroutine of its own, and its answer is piped.
type RoundTripper struct {
	// Handler serves the requests.
	Handler http.Handler
	// User is the user of the requests. If nil, their headers authenticate them.
	User user.Info
}

// RoundTrip implements http.RoundTripper.
func (t *RoundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if isStreaming(r) {
		return t.stream(r)
	}
	ctx, cancel := serverContext(r.Context())
	defer cancel()
	w := &bufferedResponse{header: http.Header{}}
	if !serve(t.Handler, w, t.serverRequest(r, ctx)) {
		return nil, errAborted
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.response(r), nil
}

// errAborted corresponds to a connection that the server closes during the answer (http.ErrAbortHandler).
var errAborted = errors.New("the API server aborted the answer")

// serve runs the handler and reports whether it returned normally. Handlers drop a connection by a panic with
// http.ErrAbortHandler; any other panic is a bug and is passed on.
func serve(h http.Handler, w http.ResponseWriter, r *http.Request) (ok bool) {
	defer func() {
		if p := recover(); p != nil {
			if p != http.ErrAbortHandler { //nolint:errorlint // compared as net/http does
				panic(p)
			}
			ok = false
		}
	}()
	h.ServeHTTP(w, r)
	return true
}

// clientContext is the client's context as the server receives it: with its end, its deadline and its error, but with no values except those of the store. Over a socket, a
// server does not receive the client's values. The client may be a part of this server that serves another request at this moment, for example the authenticator of
// tokens. With the values of that request, upstream's audit would reject this one: it starts once per context.
type clientContext struct {
	context.Context
	values context.Context
}

// Value implements context.Context.
func (c clientContext) Value(key any) any { return c.values.Value(key) }

// AfterFunc lets package context register children with the client's context. Without it, each child would need a goroutine.
func (c clientContext) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(c.Context, f) }

// serverContext returns the context of a request in the server. It ends when the client's context does, or with cancel.
func serverContext(client context.Context) (ctx context.Context, cancel context.CancelFunc) {
	return context.WithCancel(clientContext{client, store.WithValuesOf(context.Background(), client)})
}

// serverRequest converts the client's request into the form in which a server reads it.
func (t *RoundTripper) serverRequest(r *http.Request, ctx context.Context) *http.Request {
	if t.User != nil {
		ctx = withIdentity(ctx, t.User)
	}
	s := r.Clone(ctx)
	s.RequestURI = s.URL.RequestURI()
	s.RemoteAddr = "127.0.0.1:0"
	s.Proto, s.ProtoMajor, s.ProtoMinor = "HTTP/2.0", 2, 0
	if s.Host == "" {
		s.Host = s.URL.Host
	}
	if s.Body == nil {
		s.Body = http.NoBody
	}
	return s
}

// isStreaming reports whether the answer to a request is a stream. Kubernetes marks streams other than watches by subresource.
func isStreaming(r *http.Request) bool {
	return isWatch(r) || strings.HasSuffix(r.URL.Path, "/log") || strings.Contains(r.URL.Path, "/proxy")
}

// isWatch reports whether a request is a watch, which Kubernetes marks by its query (or, in old clients, a /watch/ path segment).
func isWatch(r *http.Request) bool {
	w, err := strconv.ParseBool(r.URL.Query().Get("watch"))
	return err == nil && w || strings.Contains(r.URL.Path, "/watch/")
}

// bufferedResponse holds an answer of finite length.
type bufferedResponse struct {
	header http.Header
	sent   http.Header // a copy at the time when the status was written
	code   int
	body   bytes.Buffer
}

func (w *bufferedResponse) Header() http.Header { return w.header }

func (w *bufferedResponse) WriteHeader(code int) {
	if w.code == 0 {
		w.code, w.sent = code, w.header.Clone()
	}
}

func (w *bufferedResponse) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

func (w *bufferedResponse) Flush()                             { w.WriteHeader(http.StatusOK) }
func (w *bufferedResponse) CloseNotify() <-chan bool           { return nil }
func (w *bufferedResponse) SetReadDeadline(_ time.Time) error  { return nil }
func (w *bufferedResponse) SetWriteDeadline(_ time.Time) error { return nil }

func (w *bufferedResponse) response(r *http.Request) *http.Response {
	w.WriteHeader(http.StatusOK)
	return &http.Response{
		Status: http.StatusText(w.code), StatusCode: w.code,
		Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: w.sent, Request: r,
		Body:          io.NopCloser(&w.body),
		ContentLength: int64(w.body.Len()),
	}
}

// stream runs the handler concurrently with the caller, and returns the response as soon as the handler has
// written its status.
func (t *RoundTripper) stream(r *http.Request) (*http.Response, error) {
	w := newStreamedResponse(r.Context())
	// The client may stop reading without closing the body: its context ends every wait.
	stopWake := context.AfterFunc(w.ctx, w.interrupt)
	go func() {
		defer stopWake()
		finished := false
		defer func() { w.finish(finished) }()
		finished = serve(t.Handler, w, t.serverRequest(r, w.ctx))
	}()
	if err := w.awaitStart(r.Context()); err != nil {
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(w.code), StatusCode: w.code,
		Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: w.sent, Request: r, Body: w, ContentLength: -1,
	}, nil
}

// maxBuffered is the number of bytes of a stream that may wait for its reader before the writer blocks, as
// with the buffers of a socket.
const maxBuffered = 1 << 20

// streamedResponse is both ends of a stream: the handler's writer and the client's body, with a bounded
// buffer between them. One lock for a whole batch of frames makes a watch much cheaper here than a pipe that
// passes on each write.
type streamedResponse struct {
	header  http.Header
	sent    http.Header
	code    int
	started chan struct{}
	ctx     context.Context
	cancel  context.CancelFunc

	mu     sync.Mutex
	wake   sync.Cond
	buf    []byte
	off    int
	err    error // the result of Read once buf is empty
	closed bool  // the reader has closed the body
}

func newStreamedResponse(client context.Context) *streamedResponse {
	w := &streamedResponse{header: http.Header{}, started: make(chan struct{})}
	w.ctx, w.cancel = serverContext(client)
	w.wake.L = &w.mu
	return w
}

// awaitStart waits until the handler has written its status, or the client has gone. The stream's own context
// also ends when the handler returns, which may already have written a short answer.
func (w *streamedResponse) awaitStart(client context.Context) error {
	select {
	case <-w.started:
		return nil
	case <-client.Done():
		return client.Err()
	}
}

func (w *streamedResponse) Header() http.Header { return w.header }

func (w *streamedResponse) WriteHeader(code int) {
	if w.code == 0 {
		w.code, w.sent = code, w.header.Clone()
		close(w.started)
	}
}

func (w *streamedResponse) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.buf)-w.off > maxBuffered && !w.closed && w.ctx.Err() == nil {
		w.wake.Wait()
	}
	if w.closed || w.ctx.Err() != nil {
		return 0, io.ErrClosedPipe
	}
	// A reader that is always a little behind never empties the buffer, so what it has read is removed here. That copies each byte at most once on average.
	if w.off >= len(w.buf)/2 && len(w.buf)+len(b) > cap(w.buf) {
		w.buf, w.off = w.buf[:copy(w.buf, w.buf[w.off:])], 0
	}
	w.buf = append(w.buf, b...)
	w.wake.Broadcast()
	return len(b), nil
}

// Read implements io.Reader for the client. It returns the available bytes and does not wait for more.
func (w *streamedResponse) Read(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.buf) == w.off {
		switch {
		case w.closed:
			return 0, http.ErrBodyReadAfterClose
		case w.err != nil:
			return 0, w.err
		case w.ctx.Err() != nil:
			return 0, w.ctx.Err()
		}
		w.wake.Wait()
	}
	n := copy(p, w.buf[w.off:])
	w.off += n
	if w.off == len(w.buf) {
		w.buf, w.off = w.buf[:0], 0
		if cap(w.buf) > 1<<16 {
			w.buf = nil // release the memory of a burst
		}
	}
	w.wake.Broadcast()
	return n, nil
}

// Close implements io.Closer for the client: it cancels the handler's request.
func (w *streamedResponse) Close() error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.cancel()
	w.wake.Broadcast()
	return nil
}

func (w *streamedResponse) interrupt() {
	// With the lock, this wake-up comes after the wait that it must end.
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wake.Broadcast()
}

func (w *streamedResponse) finish(ok bool) {
	w.WriteHeader(http.StatusOK)
	w.mu.Lock()
	w.err = io.EOF
	if !ok {
		w.err = errAborted
	}
	w.wake.Broadcast()
	w.mu.Unlock()
	w.cancel()
}

func (w *streamedResponse) Flush()                             { w.WriteHeader(http.StatusOK) }
func (w *streamedResponse) CloseNotify() <-chan bool           { return nil }
func (w *streamedResponse) SetReadDeadline(_ time.Time) error  { return nil }
func (w *streamedResponse) SetWriteDeadline(_ time.Time) error { return nil }
