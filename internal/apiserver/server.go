package apiserver

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/snapshot"
)

// Server is a running kube-apiserver.
type Server struct {
	address  string
	ca       *authority
	handlers *handlers
	working  *workingFor
	kubelets *kubelets
	cancel   context.CancelFunc
	ready    atomic.Bool // Stop was called
	done     chan struct{}
	err      error
}

// stopWhileStartingTimeout limits how long Stop waits for a server that is still starting. A start takes a second, and with the race detector on a busy
// machine more than ten: if it is interrupted, upstream's hooks exit the process.
const stopWhileStartingTimeout = 30 * time.Second

// stopTimeout limits how long Stop waits for the requests and the pre-shutdown hooks of a server. When etcd does not answer, the hook that
// deletes the server's Lease would wait forever for a renewal that is retried forever (k8s.io/component-helpers/apimachinery/lease).
const stopTimeout = 10 * time.Second

// Start builds a server, opens its listener and returns; Ready waits until it answers. The server runs until ctx ends or Stop is called. An error is one
// line for a user (a port in use, a damaged certificate, …).
func Start(ctx context.Context, o Options) (*Server, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	l, err := o.listen()
	if err != nil {
		return nil, err
	}
	s, prepare, err := build(ctx, o, l)
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	caller := ctx
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(caller, s.Stop)
	go func() {
		defer close(s.done)
		defer unhook()
		var background sync.WaitGroup
		backgroundCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
		background.Go(func() { o.Backend.run(backgroundCtx) })
		s.err = runUntilStopped(ctx, prepare)
		stop()
		background.Wait()
	}()
	return s, nil
}

// runUntilStopped runs a server until it fails, or until ctx ends and the server has stopped or stopTimeout has passed.
func runUntilStopped(ctx context.Context, run func(context.Context) error) error {
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	select {
	case err := <-ended:
		if ctx.Err() == nil {
			return err
		}
		return nil
	case <-ctx.Done():
	}
	select {
	case <-ended:
	case <-time.After(stopTimeout):
	}
	return nil
}

func build(ctx context.Context, o Options, l net.Listener) (*Server, func(context.Context) error, error) {
	p := pki{o.Dir}
	hosts, ips := servingNames(o.BindAddress)
	ca, err := p.ensure(hosts, ips)
	if err != nil {
		return nil, nil, err
	}
	d, working, nodes := &handlers{}, &workingFor{}, newKubelets(ca)
	opts, err := completedOptions(ctx, o, p, l, d)
	if err != nil {
		return nil, nil, err
	}
	config, err := newConfig(o, opts, d, working, nodes)
	if err != nil {
		return nil, nil, err
	}
	completed, err := config.Complete()
	if err != nil {
		return nil, nil, err
	}
	chain, err := newServers(completed)
	if err != nil {
		return nil, nil, err
	}
	if o.ResourceMetrics != nil {
		if err := installResourceMetrics(chain.GenericAPIServer, o.ResourceMetrics, d); err != nil {
			return nil, nil, err
		}
	}
	chain.GenericAPIServer.Handler.NonGoRestfulMux.Handle(snapshot.StorePath, serveContent(o.Backend, o.Version))
	prepared, err := chain.PrepareRun()
	if err != nil {
		return nil, nil, err
	}
	s := &Server{
		address:  dialable(l.Addr().(*net.TCPAddr)),
		ca:       ca,
		handlers: d,
		working:  working,
		kubelets: nodes,
		done:     make(chan struct{}),
	}
	return s, prepared.Run, nil
}

// servingNames are the names by which clients may address the server.
func servingNames(bind string) ([]string, []net.IP) {
	hosts := []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	if h, err := os.Hostname(); err == nil {
		hosts = append(hosts, h)
	}
	ips := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, net.IPv4(10, 96, 0, 1)}
	bound := net.ParseIP(bind)
	if !bound.IsUnspecified() {
		return hosts, append(ips, bound)
	}
	// Bound to every interface: any of its addresses may be used.
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok {
			ips = append(ips, n.IP)
		}
	}
	return hosts, ips
}

// dialable turns a listener's address into one to which a local client can connect.
func dialable(a *net.TCPAddr) string {
	ip := a.IP
	if ip.IsUnspecified() {
		ip = net.IPv4(127, 0, 0, 1)
	}
	return net.JoinHostPort(ip.String(), fmt.Sprint(a.Port))
}

// URL is the URL of the TLS listener.
func (s *Server) URL() string { return "https://" + s.address }

// CA is the PEM encoded certificate of the authority that signed the server's
// certificate and signs its clients'.
func (s *Server) CA() []byte { return s.ca.pem }

// ClientCertificate issues a client certificate for a user and groups, PEM
// encoded, valid for a year.
func (s *Server) ClientCertificate(user string, groups ...string) (cert, key []byte, err error) {
	c, err := s.ca.issue(pkix.Name{CommonName: user, Organization: groups}, x509.ExtKeyUsageClientAuth, nil, nil)
	return c.cert, c.key, err
}

// Handler serves the whole API. A request must bring its own credentials; own
// components use RESTConfig.
func (s *Server) Handler() http.Handler { return s.handlers.socket }

// RESTConfig is the in-process client configuration of one of our own components: protobuf where the kind supports it, no
// socket, no client-side rate limit. The name is the user of its requests (system:kube-scheduler, …).
func (s *Server) RESTConfig(name string) *rest.Config { return s.handlers.config(name) }

// UserConfig is RESTConfig for a client of a user, which also receives the API server's warnings, such as those about unknown fields. They are printed
// to stderr, each once; the config's WarningHandler can be replaced.
func (s *Server) UserConfig(name string) *rest.Config {
	c := s.handlers.config(name)
	transport := c.Transport.(*RoundTripper) // that of config
	transport.Handler = genericapifilters.WithWarningRecorder(transport.Handler)
	c.WarningHandler = rest.NewWarningWriter(os.Stderr, rest.WarningWriterOptions{Deduplicate: true})
	return c
}

// Ready waits until /readyz is good, or until the server or ctx ends.
func (s *Server) Ready(ctx context.Context) error {
	c := http.Client{Transport: &RoundTripper{Handler: s.handlers.inProcess, User: component("system:apiserver")}}
	var last string
	// /readyz has no notification to wait for.
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		code, body, err := get(ctx, c, inProcessHost+"/readyz?verbose=true")
		if err == nil && code == http.StatusOK {
			s.ready.Store(true)
			return nil
		}
		if err == nil {
			last = body
		}
		select {
		case <-tick.C:
		case <-s.done:
			return errors.Join(errors.New("the API server stopped before it was ready"), s.err)
		case <-ctx.Done():
			return fmt.Errorf("the API server is not ready: %w\n%s", ctx.Err(), last)
		}
	}
}

// Done is closed when the server has stopped. Err is then the reason, nil after Stop.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err is valid after Done.
func (s *Server) Err() error { return s.err }

// Stop stops the server and waits until it has stopped, at most stopTimeout. Before, it waits for a server that is still starting: an interrupted
// post-start hook of upstream exits the whole process (klog.Fatalf in k8s.io/apiserver/pkg/server/hooks.go).
func (s *Server) Stop() {
	if !s.ready.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), stopWhileStartingTimeout)
		_ = s.Ready(ctx)
		cancel()
	}
	// The server waits for its responses, and some of them follow a log.
	s.kubelets.close()
	s.cancel()
	<-s.done
}

func get(ctx context.Context, c http.Client, url string) (int, string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := c.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}
