package apiserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/egressselector"
)

// dialTimeout limits connections to invented addresses, where no host rejects them.
const dialTimeout = 5 * time.Second

// Kubelets answers for the kubelets of simulated nodes in process.
type Kubelets struct {
	// Handler serves the kubelet API for all simulated nodes. The contexts of its requests end when the server stops.
	Handler http.Handler
	// Simulates reports whether Handler serves a pod (resource pods) or a node (resource nodes). The server connects to the address
	// of any other node.
	Simulates func(ctx context.Context, resource, namespace, name string) (bool, error)
}

// ServeKubelets sets the kubelets of simulated nodes. The server starts nothing before the first request for one of them.
func (s *Server) ServeKubelets(k Kubelets) { s.kubelets.served.Store(&k) }

// kubelets connects the API server to the kubelets of nodes.
type kubelets struct {
	served atomic.Pointer[Kubelets]
	// issue creates the certificate of the in-process kubelets.
	issue func() (credentials, error)

	mu       sync.Mutex
	listener *pipeListener // nil before the first connection
	server   *http.Server
	stop     context.CancelFunc
	stopped  bool
}

// newKubelets issues certificates from ca. The API server does not verify them, because a connection does not leave the process.
func newKubelets(ca *authority) *kubelets {
	return &kubelets{issue: func() (credentials, error) {
		return ca.issue(pkix.Name{CommonName: "system:node:simulated", Organization: []string{"system:nodes"}}, x509.ExtKeyUsageServerAuth, nil, nil)
	}}
}

// lookup implements egressselector.Lookup.
func (k *kubelets) lookup(egressselector.NetworkContext) (utilnet.DialFunc, error) {
	return k.dial, nil
}

// dial connects to the kubelet of the node or of the pod's node that the request in ctx names.
func (k *kubelets) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if served := k.served.Load(); served != nil {
		if r, ok := genericapirequest.RequestInfoFrom(ctx); ok {
			simulated, err := served.Simulates(ctx, r.Resource, r.Namespace, r.Name)
			if err != nil {
				return nil, err
			}
			if simulated {
				return k.dialInProcess(ctx, served.Handler)
			}
		}
	}
	d := net.Dialer{Timeout: dialTimeout}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("no kubelet answers at %s (%w): this process answers only for nodes with the annotation kwok.x-k8s.io/node=fake", address, err)
	}
	return conn, nil
}

// dialInProcess connects to the in-process kubelets, and starts their server if this is the first connection.
func (k *kubelets) dialInProcess(ctx context.Context, handler http.Handler) (net.Conn, error) {
	l, err := k.start(handler)
	if err != nil {
		return nil, err
	}
	return l.dial(ctx)
}

func (k *kubelets) start(handler http.Handler) (*pipeListener, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return nil, net.ErrClosed
	}
	if k.listener != nil {
		return k.listener, nil
	}
	c, err := k.issue()
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	k.listener, k.stop = newPipeListener(), stop
	k.server = &http.Server{
		Handler:     handler,
		BaseContext: func(net.Listener) context.Context { return ctx },
		// Exec, attach and port-forward take over the connection, which HTTP/2 does not allow.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		TLSConfig:    &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		ErrorLog:     log.New(io.Discard, "", 0), // clients that end a handshake or a stream
		// No timeouts: the only client is this process. It may open a connection and use it a minute later, and it does not repeat a request
		// that was the first one on a connection that the server has closed.
	}
	go func() { _ = k.server.ServeTLS(k.listener, "", "") }() // ends in close
	return k.listener, nil
}

// close ends all requests, and rejects further connections.
func (k *kubelets) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	if k.server != nil {
		k.stop()
		_ = k.server.Close()
	}
}
