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

// TestClosedDoor: a door is closed only when the last write of its client has had its effect or
// never will, and then it forwards nothing: whoever judges the run, or cleans up behind it,
// sees no write come later.
func TestClosedDoor(t *testing.T) {
	g := &gate{reached: make(chan struct{}), release: make(chan struct{})}
	config := rest.CopyConfig(admin)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		g.RoundTripper = next
		return g
	})
	p, err := proxy.New(config)
	must(t, err)
	door, err := p.Listen("c", admin)
	must(t, err)
	client, err := kubernetes.NewForConfig(door.Config())
	must(t, err)
	ns := namespace(t)
	run := begin(t, p, proxy.Hooks{})
	done := make(chan error, 1)
	go func() { done <- create(t.Context(), client, ns, "a") }()
	<-g.reached
	closed, closing := make(chan struct{}), error(nil)
	go func() {
		defer close(closed)
		closing = door.Close()
	}()
	if err := <-done; err == nil {
		t.Error("the client heard an answer through a closed door")
	}
	select {
	case <-closed:
		t.Error("the door was closed while a write was on its way")
	case <-time.After(100 * time.Millisecond):
	}
	close(g.release)
	<-closed
	must(t, closing)
	now := exists(t, ns, "a")
	if err := create(t.Context(), client, ns, "b"); err == nil || exists(t, ns, "b") {
		t.Errorf("a write went through a closed door: %v", err)
	}
	if door.BeginWrite() {
		t.Error("a write that was held when the door was closed would go on to the server")
	}
	run.End()
	if exists(t, ns, "a") != now {
		t.Error("a write came after the door was closed")
	}
}
