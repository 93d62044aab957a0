// Package probes is the small HTTP server that a long-running command shows to
// whatever monitors it: /healthz, /readyz and /metrics.
//
// /healthz answers as soon as the server does: the process lives. /readyz
// answers 200 once everything that it waits for is ready, and before that
// 503 with the reason, one a line. /metrics is a registry of the caller's,
// never Prometheus' global one, so that two engines of one process cannot meet
// in it.
//
// It is not the API server's own health endpoint, it knows nothing of
// Kubernetes, and it decides nothing: what is ready is said by the caller.
//
// Floor: F3, because it opens a listener; it imports no other package of ours.
package probes

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Off is the address that, like an empty one, means no server.
const Off = "0"

// Check is one thing that must be so before the process is ready; its error
// says why it is not.
type Check func() error

// Server is a running server.
type Server struct {
	listener net.Listener
	http     *http.Server
	done     chan struct{}
}

// Registry is a new registry with the metrics of the Go process and those given.
func Registry(more ...prometheus.Collector) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r.MustRegister(more...)
	return r
}

// CheckAddress finds what no listener could listen on.
func CheckAddress(address string) error {
	if address == "" || address == Off {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err == nil && host != "" && host != "localhost" && net.ParseIP(host) == nil {
		err = errors.New("no IP address")
	}
	if err != nil {
		return fmt.Errorf("%q: must be HOST:PORT with an IP address, as in 127.0.0.1:8080 or :8080, or 0 for none", address)
	}
	return nil
}

// Listen serves on address until Close. It gives nil for an address that means
// none; all methods of a nil Server do nothing.
func Listen(address string, registry *prometheus.Registry, ready ...Check) (*Server, error) {
	if address == "" || address == Off {
		return nil, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{listener: listener, done: make(chan struct{})}
	s.http = &http.Server{
		Handler: handler(registry, ready), ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(listener) // it ends by Close
	}()
	return s, nil
}

func handler(registry *prometheus.Registry, ready []Check) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		var missing []error
		for _, check := range ready {
			missing = append(missing, check())
		}
		if err := errors.Join(missing...); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "ok")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry}))
	return mux
}

// Address is where it listens: the port is known even if a free one was asked for.
func (s *Server) Address() string {
	if s == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// Close ends it, with whatever is being answered.
func (s *Server) Close() {
	if s != nil {
		_ = s.http.Close()
		<-s.done
	}
}
