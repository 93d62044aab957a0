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
	subject  *subject     // the user of the client's certificate; nil without one
	listener net.Listener
	server   *http.Server
	served   sync.WaitGroup
	writing  sync.WaitGroup // requests of runs that may change an object

	mu     sync.Mutex
	closed bool
	paused *hold // nil: the client was never paused
	// connection is that of the client's watches; nil if there is none.
	connection *connection
	// run is the run of last, blockades, expiries and oldLists.
	run       *Run
	last      int // the last step whose result reached the client; 0: none
	blockades []blockade
	expiries  inject.Expiries // watches that will be answered 410
	oldLists  inject.OldLists
	// requested and watched are the times of the client's last request and last watch.
	requested, watched time.Time
}

// Listen starts a listener for one client. name is the actor of its requests in records. The
// configuration contains the client's credentials, a token or a certificate, as the client would
// send them to the API server.
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
		// The client reports errors of its connections. A failed handshake means that the client
		// does not use its kubeconfig.
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
	}
	l.served.Go(func() {
		if err := l.server.Serve(tls.NewListener(l.listener, config)); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("proxy listener stopped", "client", name, "error", err)
		}
	})
	return l, nil
}

// URL returns the address of the listener.
func (l *Listener) URL() string { return "https://" + l.listener.Addr().String() }

// Config returns the client's configuration with the address of the listener instead of the server.
func (l *Listener) Config() *rest.Config {
	c := rest.CopyConfig(l.client)
	c.Host, c.APIPath = l.URL(), ""
	c.TLSClientConfig.CAData, c.TLSClientConfig.CAFile, c.TLSClientConfig.Insecure, c.TLSClientConfig.ServerName = l.proxy.ca, "", false, ""
	c.Dial, c.Proxy = nil, nil
	return c
}

// Kubeconfig returns the configuration as a kubeconfig file. namespace is the namespace of its
// context.
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

// Close closes the listener and all connections of the client. When it returns, each write that the
// client sent in a run has taken effect, or never will.
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

// beginWrite counts a request that may change something. It returns false if the listener is
// closed.
func (l *Listener) beginWrite() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.writing.Add(1)
	}
	return !l.closed
}

// Requested reports whether the client has sent a request of a run since a time, and whether it has
// started a watch.
func (l *Listener) Requested(since time.Time) (anything, watch bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requested.After(since), l.watched.After(since)
}

// noteRequest records that the client has sent a request of a run.
func (l *Listener) noteRequest(watch bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requested = time.Now()
	if watch {
		l.watched = l.requested
	}
}

// enter resets the state of another run. The lock is held.
func (l *Listener) enter(r *Run) {
	if l.run != r {
		l.run, l.last, l.blockades, l.expiries, l.oldLists = r, 0, nil, inject.Expiries{}, inject.OldLists{}
	}
}

// observed returns the last step of a run whose result has reached the client; 0: none.
func (l *Listener) observed(r *Run) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enter(r)
	return l.last
}

// observe records that the result of a step of a run has reached the client. A run that has ended
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

// expire marks a resource: the client's next watch of it from a revision is answered 410.
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

// pausedBy returns the hold of a paused client; nil if it is not paused.
func (l *Listener) pausedBy() *hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.paused.over() {
		return nil
	}
	return l.paused
}
