package conformance

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/simtest"
)

// power switches a controller: off terminates its process, on starts another one, with empty caches.
type power struct {
	off, on, down chan struct{}
	trap          atomic.Pointer[trap]
	late          atomic.Int64 // how long events of Jobs are delayed, as a time.Duration
}

// trap terminates the controller right after a write, before it receives the answer.
type trap struct {
	method, path string
	sprung       chan struct{}
}

func newPower() *power {
	return &power{off: make(chan struct{}), on: make(chan struct{}), down: make(chan struct{})}
}

var errOff = errors.New("the controller has been switched off")

// switched returns a controller under a switch.
func (s *power) switched(start simtest.Constructor) simtest.Constructor {
	return func(ctx context.Context, config *rest.Config) error {
		for ctx.Err() == nil {
			life, end := context.WithCancel(ctx)
			own := rest.CopyConfig(config)
			own.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return &wire{power: s, next: next, life: life, end: end}
			})
			ended := make(chan error, 1)
			go func() { ended <- start(life, own) }()
			select {
			case <-s.off:
				end()
			case <-life.Done():
			case err := <-ended:
				end()
				return err
			}
			if err := <-ended; ctx.Err() != nil {
				return err
			}
			select {
			case s.down <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			select {
			case <-s.on:
			case <-ctx.Done():
			}
		}
		return nil
	}
}

// wire is the connection between a controller and the API, which a trap may cut.
type wire struct {
	power *power
	next  http.RoundTripper
	life  context.Context
	end   func()
}

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.life.Err() != nil {
		return nil, errOff
	}
	resp, err := w.next.RoundTrip(r)
	if t := w.power.trap.Load(); t != nil && err == nil && resp.StatusCode/100 == 2 && r.Method == t.method && strings.Contains(r.URL.Path, t.path) {
		w.power.trap.Store(nil)
		w.end()
		close(t.sprung)
		return nil, errors.Join(errOff, resp.Body.Close())
	}
	if err == nil && strings.HasSuffix(r.URL.Path, "/jobs") && r.URL.Query().Get("watch") != "" {
		resp.Body = &lateBody{ReadCloser: resp.Body, wire: w}
	}
	return resp, err
}

// lateBody is a watch of Jobs whose events may be delayed.
type lateBody struct {
	io.ReadCloser
	wire *wire
}

// Read implements io.Reader.
func (b *lateBody) Read(data []byte) (int, error) {
	n, err := b.ReadCloser.Read(data)
	if late := time.Duration(b.wire.power.late.Load()); late > 0 && n > 0 {
		select {
		case <-time.After(late):
		case <-b.wire.life.Done():
		}
	}
	return n, err
}

// stop terminates the controller.
func (p *play) stop() {
	p.power.off <- struct{}{}
	<-p.power.down
}

// start starts another one.
func (p *play) start() {
	p.power.on <- struct{}{}
	p.pass()
}

// restart replaces the process at once.
func (p *play) restart() {
	p.stop()
	p.power.on <- struct{}{}
}

// dies terminates the controller right after its next such write, whose answer it does not receive. The
// returned function waits for that.
func (p *play) dies(method, path string) (wait func()) {
	t := &trap{method: method, path: path, sprung: make(chan struct{})}
	p.power.trap.Store(t)
	return func() {
		select {
		case <-t.sprung:
			<-p.power.down
		case <-time.After(time.Minute):
			p.fatalf("the controller does not %s %s", method, path)
		}
	}
}
