package simtest

import (
	"bytes"
	"context"
	"net/http"
	"sync"

	utilrand "k8s.io/apimachinery/pkg/util/rand"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/store"
	"github.com/rehearse-k8s/rehearse/internal/wire"
)

// The code in this file runs outside the bubble. Its channels are created outside, so virtual time
// does not pass while a goroutine of the bubble waits on one.

// workers is how many requests can be served at once: one of the schedule and a few reads of the
// test.
const workers = 4

// exchange is one request and its answer. It is created outside and reused.
type exchange struct {
	handler     apiserver.ServeFunc
	run         string
	method, url string
	header      http.Header
	body        []byte
	names       int64 // seed of the names that the server generates; 0: it generates none
	watch       bool
	actor       string
	known       bool // the answer is cached: no request is sent

	code    int
	aborted bool // the server dropped the connection
	answer  http.Header
	out     bytes.Buffer
	feed    *feed // of a watch that has started
	done    chan struct{}
}

func (s *server) serve() {
	for x := range s.work {
		switch {
		case x.watch:
			x.feed = startFeed(x)
			x.code, x.answer = x.feed.code, x.feed.sent
			if x.code != http.StatusOK {
				x.out.Write(x.feed.all())
			}
		default:
			if x.names != 0 {
				utilrand.Seed(x.names)
			}
			x.aborted = !x.handler(x, x.request(store.WithRun(context.Background(), x.run)))
		}
		x.done <- struct{}{}
	}
}

// do executes one exchange. It may be called from a bubble.
func (s *server) do(fill func(*exchange)) *exchange {
	x := <-s.idle
	done, out := x.done, x.out
	out.Reset()
	*x = exchange{done: done, out: out}
	fill(x)
	if !x.known {
		s.work <- x
		<-x.done
	}
	return x
}

// release returns the exchange for reuse; its answer is invalid then.
func (s *server) release(x *exchange) { s.idle <- x }

func (x *exchange) request(ctx context.Context) *http.Request {
	r, err := http.NewRequestWithContext(ctx, x.method, x.url, bytes.NewReader(x.body))
	if err != nil {
		// The client has already parsed this URL.
		panic(err)
	}
	if x.header != nil {
		r.Header = x.header
	}
	return r
}

// Header implements http.ResponseWriter.
func (x *exchange) Header() http.Header {
	if x.answer == nil {
		x.answer = http.Header{}
	}
	return x.answer
}

// WriteHeader implements http.ResponseWriter.
func (x *exchange) WriteHeader(code int) {
	if x.code == 0 {
		x.code = code
	}
}

// Write implements http.ResponseWriter.
func (x *exchange) Write(b []byte) (int, error) {
	x.WriteHeader(http.StatusOK)
	return x.out.Write(b)
}

// Flush implements http.Flusher.
func (x *exchange) Flush() { x.WriteHeader(http.StatusOK) }

// feed is a watch response as the server writes it. The schedule takes its frames.
type feed struct {
	probe  store.Probe
	cancel context.CancelFunc
	header http.Header
	sent   http.Header
	code   int
	begun  chan struct{}
	once   sync.Once
	wrote  chan struct{} // the fields below have changed; room for one

	mu     sync.Mutex
	cut    *wire.Splitter
	raw    []byte // the body of a response that is not a watch
	frames [][]byte
	count  int64 // the number of frames written since the start
	ended  bool
}

func startFeed(x *exchange) *feed {
	ctx, cancel := context.WithCancel(store.WithRun(context.Background(), x.run))
	f := &feed{cancel: cancel, header: http.Header{}, begun: make(chan struct{}), wrote: make(chan struct{}, 1)}
	r := x.request(store.WithProbe(ctx, &f.probe))
	handler := x.handler
	go func() {
		defer f.end()
		handler(f, r) // a watch whose connection the server drops ends, as with a real server
	}()
	<-f.begun
	return f
}

// Header implements http.ResponseWriter.
func (f *feed) Header() http.Header { return f.header }

// WriteHeader implements http.ResponseWriter.
func (f *feed) WriteHeader(code int) {
	f.once.Do(func() {
		f.code, f.sent = code, f.header.Clone()
		if code == http.StatusOK {
			// A watch in an unknown encoding ends at its first frame.
			f.cut, _ = wire.NewSplitter(f.header.Get("Content-Type"))
			close(f.begun)
		}
	})
}

// Write implements http.ResponseWriter.
func (f *feed) Write(b []byte) (int, error) {
	f.WriteHeader(http.StatusOK)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cut == nil {
		f.raw = append(f.raw, b...)
		return len(b), nil
	}
	f.cut.Write(b)
	for {
		frame, ok := f.cut.Next()
		if !ok {
			break
		}
		f.frames = append(f.frames, frame)
		f.count++
	}
	f.signal()
	return len(b), nil
}

// Flush implements http.Flusher.
func (f *feed) Flush() { f.WriteHeader(http.StatusOK) }

// CloseNotify implements http.CloseNotifier, which the watch handler requires.
func (f *feed) CloseNotify() <-chan bool { return nil }

func (f *feed) end() {
	f.WriteHeader(http.StatusOK)
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.signal()
	if f.code != http.StatusOK {
		close(f.begun)
	}
}

func (f *feed) signal() {
	select {
	case f.wrote <- struct{}{}:
	default:
	}
}

func (f *feed) all() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.raw
}

// take waits until the server has written all events that are due and returns the new frames.
// more is false when the watch has ended.
func (f *feed) take() (frames [][]byte, more bool) {
	for {
		f.mu.Lock()
		frames, more = f.frames, !f.ended
		ready := f.ended || f.count >= f.probe.Owed()
		if ready {
			f.frames = nil
		}
		f.mu.Unlock()
		if ready {
			return frames, more
		}
		<-f.wrote
	}
}
