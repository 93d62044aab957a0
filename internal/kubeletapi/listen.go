package kubeletapi

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
)

// headerTimeout is longer than the 90 seconds after which an API server closes a connection that it has opened and not used. An API
// server does not repeat a request that was the first one on a connection that the kubelet has closed.
const headerTimeout = 2 * time.Minute

// ListenOptions are the options of Listen.
type ListenOptions struct {
	// Address is the address to listen at, as in :10250.
	Address string
	// NodeIP is the address of the nodes, for a certificate that is created.
	NodeIP string
	// Certificate is the serving certificate; without it, one is created that no authority has signed, as a kubelet does.
	Certificate *tls.Certificate
	// Config connects to the API server that decides about requests.
	Config *rest.Config
}

// Listener serves the kubelet API at a port.
type Listener struct {
	listener net.Listener
	server   *http.Server
	stop     context.CancelFunc
	work     sync.WaitGroup
}

// Listen serves the kubelet API at a port of this machine, for an API server in another process: it authenticates and authorizes each
// request as a kubelet does. The server runs until Close.
func (s *Server) Listen(ctx context.Context, o ListenOptions) (*Listener, error) {
	pair, err := o.certificate()
	if err != nil {
		return nil, err
	}
	g, err := newGuard(ctx, o.Config)
	if err != nil {
		return nil, err
	}
	l := &Listener{}
	if l.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", o.Address); err != nil {
		return nil, err
	}
	base, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	l.server = &http.Server{
		Handler:     g.wrap(s, s.nodeName),
		BaseContext: func(net.Listener) context.Context { return base },
		// Exec, attach and port-forward take over the connection, which HTTP/2 does not allow.
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){},
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert},
		ReadHeaderTimeout: headerTimeout,
		ErrorLog:          log.New(io.Discard, "", 0), // clients that end a handshake or a stream
	}
	l.work.Go(func() { g.run(base) })
	l.work.Go(func() { _ = l.server.ServeTLS(l.listener, "", "") }) // ends in Close
	return l, nil
}

// Address is the address that the server listens at.
func (l *Listener) Address() *net.TCPAddr { return l.listener.Addr().(*net.TCPAddr) }

// Close ends all requests and waits until the server has stopped. A nil Listener does nothing.
func (l *Listener) Close() {
	if l == nil {
		return
	}
	l.stop()
	_ = l.server.Close()
	l.work.Wait()
}

func (o *ListenOptions) certificate() (tls.Certificate, error) {
	if o.Certificate != nil {
		return *o.Certificate, nil
	}
	cert, key, err := certutil.GenerateSelfSignedCertKey(o.NodeIP, []net.IP{net.ParseIP(o.NodeIP)}, nil)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("create a serving certificate: %w", err)
	}
	return tls.X509KeyPair(cert, key)
}

// podPaths are the first parts of the paths that name a pod.
var podPaths = []string{"containerLogs", "exec", "attach", "portForward"}

// nodeName returns the node that a request is about, for its authorization: that of the pod, or the one whose metrics it reads; empty if
// none is known.
func (s *Server) nodeName(r *http.Request) string {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if !slices.Contains(podPaths, parts[0]) {
		if r.URL.Path == discoveryPath { // the list is of all nodes, whatever the header says
			return ""
		}
		node, _ := s.nodeOf(r) // the handler finds the same node, or the same error
		return node
	}
	if len(parts) < 3 {
		return ""
	}
	c, err := s.clients()
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	pod, err := c.core.Pods(parts[1]).Get(ctx, parts[2], metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return pod.Spec.NodeName
}

// Access lists the permissions that a Server with Listen needs.
func Access() []reconcile.Access {
	kinds := []string{}
	for _, kind := range []string{"logs", "attaches", "execs", "portforwards", "resourceusages"} {
		kinds = append(kinds, kind, "cluster"+kind)
	}
	all := []reconcile.Access{
		{Group: "authentication.k8s.io", Resource: "tokenreviews", Verbs: []string{"create"}},
		{Group: "authorization.k8s.io", Resource: "subjectaccessreviews", Verbs: []string{"create"}},
		{Resource: "configmaps", Namespace: caNamespace, Name: caConfigMap, Verbs: []string{"get", "list", "watch"}},
	}
	for _, kind := range append(kinds, "metrics") {
		all = append(all, reconcile.Access{Group: v1alpha1.GroupVersion.Group, Resource: kind, Verbs: []string{"get", "list"}})
	}
	return all
}
