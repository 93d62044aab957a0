package proxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
)

// Proxy stands in front of one API server.
type Proxy struct {
	target *url.URL
	// plain speaks to the server as nobody: clients bring their tokens. trusted speaks as
	// the proxy's own user. The other two are the same with HTTP/1.1 alone, for
	// connections that are to become something else.
	plain, trusted               http.RoundTripper
	plainUpgrade, trustedUpgrade http.RoundTripper

	certificate tls.Certificate
	ca          []byte // PEM

	run atomic.Pointer[Run]
}

// New makes a proxy in front of the API server of config, whose user must be allowed to
// impersonate those clients that show a certificate.
func New(config *rest.Config) (*Proxy, error) {
	target, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &Proxy{target: target}
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
	var key []byte
	if p.ca, key, err = certutil.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}); err == nil {
		p.certificate, err = tls.X509KeyPair(p.ca, key)
	}
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	return p, nil
}

// transport is a client of the API server that neither limits nor unpacks anything.
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

// errOneRun: two runs at once would share their faults.
var errOneRun = errors.New("proxy: a run has begun and not ended")
