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

// Proxy stands in front of one API server.
type Proxy struct {
	target *url.URL
	// plain speaks to the server as nobody: clients bring their tokens. trusted speaks as
	// the proxy's own user. The other two are the same with HTTP/1.1 alone, for
	// connections that are to become something else.
	plain, trusted               http.RoundTripper
	plainUpgrade, trustedUpgrade http.RoundTripper

	shown

	run atomic.Pointer[Run]
}

// New makes a proxy in front of the API server of config, whose user must be allowed to
// impersonate those clients that show a certificate. A config with a transport of its own,
// as for a server in this process, is asked by that, and there a client without a
// certificate is nobody: its tokens are not looked at.
func New(config *rest.Config) (*Proxy, error) {
	target, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &Proxy{target: target}
	if p.shown, err = serving(); err != nil {
		return nil, err
	}
	if config.Transport != nil {
		p.trusted, p.trustedUpgrade = config.Transport, config.Transport
		p.plain, p.plainUpgrade = nobody{config.Transport}, nobody{config.Transport}
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

// shown is what the doors of this process show to their clients. To make it takes as long
// as a short run, so there is one.
type shown struct {
	certificate tls.Certificate
	ca          []byte // PEM
}

var serving = sync.OnceValues(func() (s shown, err error) {
	var key []byte
	if s.ca, key, err = certutil.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}); err == nil {
		s.certificate, err = tls.X509KeyPair(s.ca, key)
	}
	if err != nil {
		err = fmt.Errorf("proxy: %w", err)
	}
	return s, err
})

// nobody asks as an anonymous user.
type nobody struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (n nobody) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Del("Authorization")
	for name := range r.Header {
		if strings.HasPrefix(name, "Impersonate-") {
			r.Header.Del(name)
		}
	}
	r.Header.Set("Impersonate-User", user.Anonymous)
	return n.next.RoundTrip(r)
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
