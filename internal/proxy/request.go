package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/wire"
)

// maxBody is the maximum size of the body of a request, in bytes. It is far above the limit of the
// API server.
const maxBody = 64 << 20

// serve processes a request of the client: it identifies the client, describes the request if a run
// is active, and forwards it. In a run the request passes the faults on its way to the server (see
// request.RoundTrip).
func (l *Listener) serve(w http.ResponseWriter, r *http.Request) {
	from, err := l.identify(r)
	if err != nil {
		writeAnswer(w, failed(err))
		return
	}
	upgrade := isUpgrade(r)
	next := l.proxy.transport(from.impersonated, upgrade)
	if !upgrade {
		body, err := readBody(w, r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		if run := l.proxy.run.Load(); run != nil {
			next = l.describe(run, r, body, next)
		}
	}
	l.forward(w, r, from, next, upgrade)
}

// readBody reads the whole body. The server may answer before it has read the body. Then a client
// with HTTP/2 stops sending and waits for the end of the answer, while a copying proxy waits for
// the remaining body: a deadlock.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, fmt.Errorf("proxy: read body of %s %s: %w", r.Method, r.URL.Path, err)
	}
	return body, nil
}

// describe returns the transport for one request of a run.
func (l *Listener) describe(run *Run, r *http.Request, body []byte, next http.RoundTripper) *request {
	q := &request{listener: l, run: run, next: next, body: body, call: wire.DescribeCall(r.Method, r.URL, r.Header, body), number: -1}
	l.noteRequest(q.call.Watch)
	return q
}

// forward sends a request with a transport, and the answer to the client. ReverseProxy removes the
// hop-by-hop headers in both directions.
func (l *Listener) forward(w http.ResponseWriter, r *http.Request, from identity, next http.RoundTripper, upgrade bool) {
	forward := httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			l.proxy.direct(pr.Out)
			if !upgrade {
				pr.Out.Header.Del("Connection") // such as an upgrade to HTTP/2
				pr.Out.Header.Del("Upgrade")
			}
			from.sign(pr.Out)
		},
		Transport:     next,
		FlushInterval: -1, // send watch events immediately
		BufferPool:    buffers,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				http.Error(w, fmt.Sprintf("proxy: request to the API server failed: %s", err), http.StatusBadGateway)
			}
		},
	}
	forward.ServeHTTP(w, r)
}

// isUpgrade reports whether a request upgrades its connection: a read over a WebSocket, or the
// streams of a container. Every other request is an ordinary one, whatever its headers request.
func isUpgrade(r *http.Request) bool {
	if r.Header.Get("Upgrade") == "" && !strings.Contains(strings.ToLower(r.Header.Get("Connection")), "upgrade") {
		return false
	}
	c := wire.DescribePath(r.Method, r.URL.Path)
	return !history.IsWriteVerb(c.Verb) || slices.Contains([]string{"exec", "attach", "portforward", "proxy"}, c.Subresource)
}

// direct sets the address of a request to the API server.
func (p *Proxy) direct(r *http.Request) {
	r.URL.Scheme, r.URL.Host, r.Host = p.target.Scheme, p.target.Host, ""
	if base := strings.TrimSuffix(p.target.Path, "/"); base != "" {
		r.URL.Path = base + r.URL.Path
		if r.URL.RawPath != "" {
			r.URL.RawPath = base + r.URL.RawPath
		}
	}
}

// transport returns the transport to the API server: with the proxy's own user, or with the
// client's credentials.
func (p *Proxy) transport(impersonated, upgrade bool) http.RoundTripper {
	switch {
	case impersonated && upgrade:
		return p.trustedUpgrade
	case impersonated:
		return p.trusted
	case upgrade:
		return p.plainUpgrade
	}
	return p.plain
}

// failed converts an error to an answer in the format of the API server.
func failed(err error) wire.Answer {
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	return wire.Failure(status)
}

// writeAnswer answers a request that the proxy does not forward.
func writeAnswer(w http.ResponseWriter, a wire.Answer) {
	for name, values := range a.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.Code)
	_, _ = w.Write(a.Body) // a disconnected client needs no answer
}
