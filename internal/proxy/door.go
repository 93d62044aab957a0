package proxy

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
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
)

// Door is where one client comes in.
type Door struct {
	proxy *Proxy
	// Name is the actor of the client's requests, as faults and histories call it.
	name     string
	client   *rest.Config // as it would speak to the server itself
	subject  *subject     // who its certificate says that it is; nil without one
	listener net.Listener
	server   *http.Server
	served   sync.WaitGroup
	writing  sync.WaitGroup // requests of runs that may change something

	mu      sync.Mutex
	closed  bool
	pause   *hold
	expired map[string]bool // watches that are to be told so, by run, resource and namespace
	of      *Run
	last    int // the last step of that run that the client heard of
	// asked and watched are when the client last asked for anything, and for a watch.
	asked, watched time.Time
}

// Open opens a door. Requests are recorded as those of actor name; client says who the
// client is: its token or certificate, as it would show them to the server itself.
func (p *Proxy) Open(name string, client *rest.Config) (*Door, error) {
	d := &Door{proxy: p, name: name, client: rest.CopyConfig(client), expired: map[string]bool{}}
	if err := rest.LoadTLSFiles(d.client); err != nil {
		return nil, fmt.Errorf("proxy: client %s: %w", name, err)
	}
	var err error
	if d.subject, err = subjectOf(d.client.CertData); err != nil {
		return nil, fmt.Errorf("proxy: client %s: its certificate cannot be read: %w", name, err)
	}
	if d.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("proxy: client %s: %w", name, err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{p.certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if d.subject != nil {
		config.ClientAuth = tls.RequestClientCert
	}
	d.server = &http.Server{
		Handler: http.HandlerFunc(d.serve), ReadHeaderTimeout: 30 * time.Second,
		// What goes wrong with a connection is the client's to tell; a broken handshake is
		// that of a client that does not honour its kubeconfig.
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
	}
	d.served.Go(func() {
		if err := d.server.Serve(tls.NewListener(d.listener, config)); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("a door of the proxy has closed", "client", name, "error", err)
		}
	})
	return d, nil
}

// URL is where the door is.
func (d *Door) URL() string { return "https://" + d.listener.Addr().String() }

// Config is the client's configuration with the door in the place of the server.
func (d *Door) Config() *rest.Config {
	c := rest.CopyConfig(d.client)
	c.Host, c.APIPath = d.URL(), ""
	c.TLSClientConfig.CAData, c.TLSClientConfig.CAFile, c.TLSClientConfig.Insecure, c.TLSClientConfig.ServerName = d.proxy.ca, "", false, ""
	c.Dial, c.Proxy = nil, nil
	return c
}

// Kubeconfig is the same as a file, with namespace as the one of its context.
func (d *Door) Kubeconfig(namespace string) ([]byte, error) {
	user := &clientcmdapi.AuthInfo{
		Token: d.client.BearerToken, TokenFile: d.client.BearerTokenFile, Username: d.client.Username, Password: d.client.Password,
		ClientCertificateData: d.client.CertData, ClientKeyData: d.client.KeyData, Exec: d.client.ExecProvider,
	}
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{d.name: {Server: d.URL(), CertificateAuthorityData: d.proxy.ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{d.name: user},
		Contexts:       map[string]*clientcmdapi.Context{d.name: {Cluster: d.name, AuthInfo: d.name, Namespace: namespace}},
		CurrentContext: d.name,
	})
}

// Close ends all connections of the client. What it wrote in a run has been done when Close
// returns, or never will be.
func (d *Door) Close() error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	err := d.server.Close()
	d.served.Wait()
	d.writing.Wait()
	return err
}

func (d *Door) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// begins counts a request that may change something; false: the door is closed.
func (d *Door) begins() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.writing.Add(1)
	}
	return !d.closed
}

// subject is who a certificate says that its holder is.
type subject struct {
	user   string
	groups []string
	raw    []byte // of the certificate
}

func subjectOf(chain []byte) (*subject, error) {
	if len(chain) == 0 {
		return nil, nil
	}
	block, _ := pem.Decode(chain)
	if block == nil {
		return nil, errors.New("it is no PEM")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, err
	}
	return &subject{user: c.Subject.CommonName, groups: c.Subject.Organization, raw: c.Raw}, nil
}

// shows tells whether a connection has shown this certificate. That its holder has the key
// the handshake has made sure of; whose it is the kubeconfig says that it comes from.
func (s *subject) shows(state *tls.ConnectionState) bool {
	return s != nil && state != nil && len(state.PeerCertificates) > 0 && bytes.Equal(state.PeerCertificates[0].Raw, s.raw)
}

// Asked tells whether the client has asked for anything since a moment while a run was
// under way, and whether it has begun to watch something.
func (d *Door) Asked(since time.Time) (anything, watches bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked.After(since), d.watched.After(since)
}
