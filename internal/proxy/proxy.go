package proxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
)

// Proxy forwards requests to one API server.
type Proxy struct {
	target *url.URL
	// plain has no credentials: clients send their tokens. trusted has the credentials of the
	// proxy's own user. The other two are the same with HTTP/1.1 only, for upgraded connections.
	plain, trusted               http.RoundTripper
	plainUpgrade, trustedUpgrade http.RoundTripper

	serverCertificate

	run atomic.Pointer[Run]
}

// New returns a proxy for the API server of config. The user of config must be allowed to
// impersonate the clients with certificates. If config has a Transport, as for a server in this
// process, the proxy uses it for all requests; then a client without a certificate is anonymous,
// and its tokens are ignored.
func New(config *rest.Config) (*Proxy, error) {
	target, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &Proxy{target: target}
	if p.serverCertificate, err = generateOnce(); err != nil {
		return nil, err
	}
	if config.Transport != nil {
		p.trusted, p.trustedUpgrade = config.Transport, config.Transport
		p.plain, p.plainUpgrade = anonymous{config.Transport}, anonymous{config.Transport}
		return p, nil
	}
	for _, t := range []struct {
		to      *http.RoundTripper
		config  *rest.Config
		upgrade bool
	}{
		{&p.plain, rest.AnonymousClientConfig(config), false}, {&p.trusted, config, false},
		{&p.plainUpgrade, rest.AnonymousClientConfig(config), true}, {&p.trustedUpgrade, config, true},
	} {
		if *t.to, err = transport(t.config, t.upgrade); err != nil {
			return nil, fmt.Errorf("proxy: %w", err)
		}
	}
	return p, nil
}

// serverCertificate is the certificate of all listeners of this process. They share one, because
// its generation takes as long as a short run.
type serverCertificate struct {
	certificate tls.Certificate
	ca          []byte // PEM
}

var generateOnce = sync.OnceValues(func() (s serverCertificate, err error) {
	var key []byte
	if s.ca, key, err = certutil.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}); err == nil {
		s.certificate, err = tls.X509KeyPair(s.ca, key)
	}
	if err != nil {
		err = fmt.Errorf("proxy: %w", err)
	}
	return s, err
})

// anonymous sends requests as the anonymous user.
type anonymous struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (a anonymous) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Del("Authorization")
	for name := range r.Header {
		if strings.HasPrefix(name, "Impersonate-") {
			r.Header.Del(name)
		}
	}
	r.Header.Set("Impersonate-User", user.Anonymous)
	return a.next.RoundTrip(r)
}

// transport returns a client of the API server without rate limits and decompression.
func transport(config *rest.Config, upgrade bool) (http.RoundTripper, error) {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	t := &http.Transport{
		TLSClientConfig: tlsConfig, DisableCompression: true, ForceAttemptHTTP2: !upgrade,
		MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second,
		DialContext: config.Dial,
		Proxy:       config.Proxy,
	}
	if upgrade {
		t.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	return rest.HTTPWrappersForConfig(config, t)
}

// errOneRun is returned by Begin, because two concurrent runs would share their faults.
var errOneRun = errors.New("proxy: begin run: the last run has not ended")
