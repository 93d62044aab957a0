package proxy_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/proxy"
)

// gate holds creates of ConfigMaps on their way to the server.
type gate struct {
	http.RoundTripper
	once             sync.Once
	reached, release chan struct{}
}

func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/configmaps") {
		g.once.Do(func() { close(g.reached) })
		<-g.release
	}
	return g.RoundTripper.RoundTrip(r)
}

// TestClosedListener: Close returns only when the last write of the client has had its effect or
// never will, and then the listener forwards nothing: after the verdict on a run, and the
// cleanup, there are no more writes.
func TestClosedListener(t *testing.T) {
	g := &gate{reached: make(chan struct{}), release: make(chan struct{})}
	config := rest.CopyConfig(admin)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		g.RoundTripper = next
		return g
	})
	p, err := proxy.New(config)
	must(t, err)
	listener, err := p.Listen("c", admin)
	must(t, err)
	client, err := kubernetes.NewForConfig(listener.Config())
	must(t, err)
	ns := namespace(t)
	run := begin(t, p, proxy.Hooks{})
	done := make(chan error, 1)
	go func() { done <- create(t.Context(), client, ns, "a") }()
	<-g.reached
	closed, closing := make(chan struct{}), error(nil)
	go func() {
		defer close(closed)
		closing = listener.Close()
	}()
	if err := <-done; err == nil {
		t.Error("the client received an answer through a closed listener")
	}
	select {
	case <-closed:
		t.Error("Close returned while a write was being sent")
	case <-time.After(100 * time.Millisecond):
	}
	close(g.release)
	<-closed
	must(t, closing)
	now := exists(t, ns, "a")
	if err := create(t.Context(), client, ns, "b"); err == nil || exists(t, ns, "b") {
		t.Errorf("a closed listener forwarded a write: %v", err)
	}
	if listener.BeginWrite() {
		t.Error("a write that was held when the listener was closed would be sent to the server")
	}
	run.End()
	if exists(t, ns, "a") != now {
		t.Error("a write had its effect after Close")
	}
}
