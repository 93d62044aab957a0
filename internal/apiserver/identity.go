package apiserver

import (
	"context"
	"crypto/x509"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

type identityKey struct{}

// withIdentity marks a request of the in-process transport. A request from a socket cannot set a context
// value.
func withIdentity(ctx context.Context, u user.Info) context.Context {
	return context.WithValue(ctx, identityKey{}, u)
}

// identityAuthenticator authenticates requests of the in-process transport, and passes all others to next.
type identityAuthenticator struct{ next authenticator.Request }

func (a identityAuthenticator) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if u, ok := r.Context().Value(identityKey{}).(user.Info); ok {
		return &authenticator.Response{User: u}, true, nil
	}
	return a.next.AuthenticateRequest(r)
}

// component is the user of one of our own components. With system:masters it needs no RBAC rules; the names are those in the
// audit logs of real clusters.
func component(name string) user.Info {
	return &user.DefaultInfo{Name: name, Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}
}

// Upstream verifies a client's certificate chain at every request, which takes a tenth of the CPU time of a
// pod's creation. The result for the certificate of one TLS connection is cached for as long as upstream
// caches tokens.
const (
	certificateTTL  = 10 * time.Second
	certificatesMax = 1024 // connections; more are verified at each request
)

// certificateCache caches the user of a connection's client certificate. Requests with any other credentials
// always go to next.
type certificateCache struct {
	next authenticator.Request

	mu    sync.Mutex
	known map[*x509.Certificate]knownCertificate
}

type knownCertificate struct {
	response *authenticator.Response
	until    time.Time
}

func (a *certificateCache) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 || r.Header.Get("Authorization") != "" || fromProxy(r) {
		return a.next.AuthenticateRequest(r)
	}
	// The parsed certificate belongs to one connection: its address identifies the connection, and the map
	// keeps it from being used again.
	cert, now := r.TLS.PeerCertificates[0], time.Now()
	a.mu.Lock()
	k, ok := a.known[cert]
	a.mu.Unlock()
	if ok && now.Before(k.until) {
		return k.response, true, nil
	}
	response, ok, err := a.next.AuthenticateRequest(r)
	if err != nil || !ok {
		return response, ok, err
	}
	until := now.Add(certificateTTL)
	if cert.NotAfter.Before(until) {
		until = cert.NotAfter
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == nil || len(a.known) >= certificatesMax {
		a.known = map[*x509.Certificate]knownCertificate{}
	}
	a.known[cert] = knownCertificate{response, until}
	return response, true, nil
}

// fromProxy reports whether a request comes from a front proxy: its certificate stands for many users, named
// in headers. WebSocket clients may send a token in a header of their own.
func fromProxy(r *http.Request) bool {
	return r.Header.Get("X-Remote-User") != "" || r.Header.Get("Sec-Websocket-Protocol") != ""
}
