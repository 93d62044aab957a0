package proxy

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"net/http"
)

// subject is the user of a client certificate.
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
		return nil, errors.New("want PEM data")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, err
	}
	return &subject{user: c.Subject.CommonName, groups: c.Subject.Organization, raw: c.Raw}, nil
}

// authenticates reports whether a connection has presented this certificate. The handshake has
// proved that the client has the key.
func (s *subject) authenticates(state *tls.ConnectionState) bool {
	return s != nil && state != nil && len(state.PeerCertificates) > 0 && bytes.Equal(state.PeerCertificates[0].Raw, s.raw)
}

// identity is the user of a forwarded request.
type identity struct {
	// impersonated is true if the proxy sends the request as its own user, with the impersonation
	// headers in as. Otherwise the request has the client's own credentials.
	impersonated bool
	as           http.Header
}

// identify determines the identity of a request. The proxy cannot forward a client certificate, so
// it impersonates its user. It forwards tokens unchanged.
func (l *Listener) identify(r *http.Request) (identity, error) {
	if r.Header.Get("Authorization") != "" || !l.subject.authenticates(r.TLS) {
		return identity{}, nil
	}
	as, err := impersonationHeaders(r.Header)
	if err != nil {
		return identity{}, err
	}
	if len(as) > 0 {
		return identity{true, as}, l.proxy.mayImpersonate(r.Context(), l.subject, as)
	}
	as.Set("Impersonate-User", l.subject.user)
	for _, group := range l.subject.groups {
		as.Add("Impersonate-Group", group)
	}
	return identity{true, as}, nil
}

// sign sets the impersonation headers of a request. The caller must first remove the hop-by-hop
// headers, because this also removes the headers that the client lists in Connection.
func (i identity) sign(r *http.Request) {
	if !i.impersonated {
		return
	}
	for name := range r.Header {
		if isImpersonation(name) {
			delete(r.Header, name)
		}
	}
	maps.Copy(r.Header, i.as)
}
