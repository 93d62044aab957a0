// Package probes is the HTTP server of a long-running command for probes and monitoring: /healthz,
// /readyz and /metrics.
//
// /healthz answers 200 while the process runs. /readyz answers 200 if all checks pass, and
// otherwise 503 with one reason per line. /metrics serves the caller's registry, never Prometheus'
// global one, so that two engines in one process do not share metrics.
//
// It is not the API server's own health endpoint. It does not depend on Kubernetes, and the caller
// decides what ready means.
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

// Off is an address that means no server, like the empty address.
const Off = "0"

// Check returns an error with the reason if the process is not ready.
type Check func() error

// Server is a running server.
type Server struct {
	listener net.Listener
	http     *http.Server
	done     chan struct{}
}

// Registry returns a new registry with the metrics of the Go process and the given collectors.
func Registry(more ...prometheus.Collector) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r.MustRegister(more...)
	return r
}

// CheckAddress returns an error for an address that Listen cannot use.
func CheckAddress(address string) error {
	if address == "" || address == Off {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err == nil && host != "" && host != "localhost" && net.ParseIP(host) == nil {
		err = errors.New("not an IP address")
	}
	if err != nil {
		return fmt.Errorf("%q: must be HOST:PORT with an IP address, such as 127.0.0.1:8080 or :8080, or 0 for none", address)
	}
	return nil
}

// Listen serves on an address until Close. For an empty address or Off it returns nil; all methods
// of a nil Server do nothing.
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
		_ = s.http.Serve(listener) // returns after Close
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

// Address returns the listener's address. It contains the port even if address asked for any free
// port.
func (s *Server) Address() string {
	if s == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// Close stops the server and aborts the requests in progress.
func (s *Server) Close() {
	if s != nil {
		_ = s.http.Close()
		<-s.done
	}
}
