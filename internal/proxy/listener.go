package proxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/rehearse-k8s/rehearse/internal/inject"
	"github.com/rehearse-k8s/rehearse/internal/wire"
)

// Listener accepts the connections of one client.
type Listener struct {
	proxy *Proxy
	// name is the actor of the client's requests in faults and histories.
	name     string
	client   *rest.Config // the client's configuration without the proxy
	subject  *subject     // of the client's certificate; nil without one
	listener net.Listener
	server   *http.Server
	served   sync.WaitGroup
	writing  sync.WaitGroup // requests of runs that may change something

	mu     sync.Mutex
	closed bool
	paused *hold // nil: the client was never paused
	// run is the run that last and expiries belong to.
	run      *Run
	last     int             // the last step whose result reached the client; 0: none
	expiries inject.Expiries // watches that are to be answered 410
	// requested and watched are the times of the client's last request, and of its last watch.
	requested, watched time.Time
}

// Listen starts a listener for one client. Its requests are recorded as those of the actor
// name. The configuration contains the client's credentials: a token or a certificate, as it
// would send them to the API server.
func (p *Proxy) Listen(name string, client *rest.Config) (*Listener, error) {
	l := &Listener{proxy: p, name: name, client: rest.CopyConfig(client)}
	if err := rest.LoadTLSFiles(l.client); err != nil {
		return nil, fmt.Errorf("proxy: client %s: %w", name, err)
	}
	var err error
	if l.subject, err = subjectOf(l.client.CertData); err != nil {
		return nil, fmt.Errorf("proxy: client %s: read certificate: %w", name, err)
	}
	if l.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("proxy: client %s: %w", name, err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{p.certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if l.subject != nil {
		config.ClientAuth = tls.RequestClientCert
	}
	l.server = &http.Server{
		Handler: http.HandlerFunc(l.serve), ReadHeaderTimeout: 30 * time.Second,
		// The client reports errors of its connections. A failed handshake means that it does
		// not use its kubeconfig.
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
	}
	l.served.Go(func() {
		if err := l.server.Serve(tls.NewListener(l.listener, config)); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("proxy listener stopped", "client", name, "error", err)
		}
	})
	return l, nil
}

// URL is the address of the listener.
func (l *Listener) URL() string { return "https://" + l.listener.Addr().String() }

// Config is the client's configuration with the listener's address in place of the server's.
func (l *Listener) Config() *rest.Config {
	c := rest.CopyConfig(l.client)
	c.Host, c.APIPath = l.URL(), ""
	c.TLSClientConfig.CAData, c.TLSClientConfig.CAFile, c.TLSClientConfig.Insecure, c.TLSClientConfig.ServerName = l.proxy.ca, "", false, ""
	c.Dial, c.Proxy = nil, nil
	return c
}

// Kubeconfig is the same as a file. namespace is that of its context.
func (l *Listener) Kubeconfig(namespace string) ([]byte, error) {
	user := &clientcmdapi.AuthInfo{
		Token: l.client.BearerToken, TokenFile: l.client.BearerTokenFile, Username: l.client.Username, Password: l.client.Password,
		ClientCertificateData: l.client.CertData, ClientKeyData: l.client.KeyData, Exec: l.client.ExecProvider,
	}
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{l.name: {Server: l.URL(), CertificateAuthorityData: l.proxy.ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{l.name: user},
		Contexts:       map[string]*clientcmdapi.Context{l.name: {Cluster: l.name, AuthInfo: l.name, Namespace: namespace}},
		CurrentContext: l.name,
	})
}

// Close closes the listener and all connections of the client. When it returns, each write
// that the client sent in a run has had its effect, or never will.
func (l *Listener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	err := l.server.Close()
	l.served.Wait()
	l.writing.Wait()
	return err
}

func (l *Listener) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// beginWrite counts a request that may change something; false if the listener is closed.
func (l *Listener) beginWrite() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.writing.Add(1)
	}
	return !l.closed
}

// Requested reports whether the client has sent a request of a run since a time, and whether
// it has started a watch.
func (l *Listener) Requested(since time.Time) (anything, watch bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requested.After(since), l.watched.After(since)
}

// noteRequest notes that the client has sent a request of a run.
func (l *Listener) noteRequest(watch bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requested = time.Now()
	if watch {
		l.watched = l.requested
	}
}

// enter forgets what belongs to another run. The lock is held.
func (l *Listener) enter(r *Run) {
	if l.run != r {
		l.run, l.last, l.expiries = r, 0, inject.Expiries{}
	}
}

// observed returns the last step of a run whose result has reached the client; 0: none.
func (l *Listener) observed(r *Run) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enter(r)
	return l.last
}

// observe notes that the result of a step of a run reaches the client. A run that has ended
// records no steps: their number is -1.
func (l *Listener) observe(r *Run, step int) {
	if step < 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enter(r)
	l.last = step
}

// expire makes the client's next watch of a resource from a revision be answered 410.
func (l *Listener) expire(r *Run, resource, namespace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enter(r)
	l.expiries.Expire(l.name, resource, namespace)
}

// expired reports whether a request is such a watch.
func (l *Listener) expired(r *Run, c *wire.Call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enter(r)
	return l.expiries.Request(l.name, c.Verb, c.Resource, c.Namespace, c.Resumes())
}

// pause holds everything that the client sends and receives.
func (l *Listener) pause(h *hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paused = h
}

// pausedBy is the hold of a paused client; nil if it is not paused.
func (l *Listener) pausedBy() *hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.paused.over() {
		return nil
	}
	return l.paused
}
