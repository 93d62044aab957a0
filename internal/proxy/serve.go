package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/wire"
)

// maxBody is the largest body of a request, in bytes: far above what the API server takes.
const maxBody = 64 << 20

// serve takes a request of the client.
func (d *Door) serve(w http.ResponseWriter, r *http.Request) {
	who, err := d.identify(r)
	if err != nil {
		deny(w, err)
		return
	}
	if isUpgrade(r) {
		d.pass(w, r, who)
		return
	}
	// The server may answer a body that it does not want to see. Then a client with HTTP/2
	// sends the rest no more and waits for the end of the answer, and who copies waits for the
	// rest: nobody would ever be done.
	body, err := readBody(w, r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	run := d.proxy.run.Load()
	if run == nil {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		d.pass(w, r, who)
		return
	}
	q := &exchange{door: d, run: run, who: who, w: w, r: r, body: body}
	q.call = wire.DescribeCall(r.Method, r.URL, r.Header, body)
	d.asks(q.call.Watch)
	q.answer()
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, fmt.Errorf("proxy: the body of %s %s: %w", r.Method, r.URL.Path, err)
	}
	return body, nil
}

// asks notes that the client has asked for something.
func (d *Door) asks(watch bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = time.Now()
	if watch {
		d.watched = d.asked
	}
}

// speaker is as whom a request reaches the server.
type speaker struct {
	// trusted says that the proxy speaks for the client, under the impersonation headers in as.
	// Otherwise the request goes on with what the client itself brings.
	trusted bool
	as      http.Header
}

// identify says as whom a request reaches the server: the proxy speaks for a client that has
// shown its certificate, which ends here. Tokens go on as they are.
func (d *Door) identify(r *http.Request) (speaker, error) {
	if r.Header.Get("Authorization") != "" || !d.subject.shows(r.TLS) {
		return speaker{}, nil
	}
	as, err := impersonationHeaders(r.Header)
	if err != nil {
		return speaker{}, err
	}
	if len(as) > 0 {
		return speaker{true, as}, d.proxy.mayImpersonate(r.Context(), d.subject, as)
	}
	as.Set("Impersonate-User", d.subject.user)
	for _, group := range d.subject.groups {
		as.Add("Impersonate-Group", group)
	}
	return speaker{true, as}, nil
}

// sign puts on a request who sends it. It comes last: what removes the headers of a connection
// removes those that the client lists there too.
func (s speaker) sign(r *http.Request) {
	if !s.trusted {
		return
	}
	for name := range r.Header {
		if isImpersonation(name) {
			delete(r.Header, name)
		}
	}
	maps.Copy(r.Header, s.as)
}

// deny answers a request that does not go on to the server.
func deny(w http.ResponseWriter, err error) {
	a := failed(err)
	copyHeader(w.Header(), a.Header)
	w.WriteHeader(a.Code)
	_, _ = w.Write(a.Body) // a client that has gone away needs no answer
}

// failed is an error as the API would answer it.
func failed(err error) wire.Answer {
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	return wire.Failure(status)
}

// isUpgrade tells whether a connection is to become something else: a read over a WebSocket, or
// the streams of a container. Any other request is an ordinary one, whatever its headers offer.
func isUpgrade(r *http.Request) bool {
	if r.Header.Get("Upgrade") == "" && !strings.Contains(strings.ToLower(r.Header.Get("Connection")), "upgrade") {
		return false
	}
	c := wire.DescribePath(r.Method, r.URL.Path)
	return !history.IsWriteVerb(c.Verb) || slices.Contains([]string{"exec", "attach", "portforward", "proxy"}, c.Subresource)
}

// pass copies a request and its answer.
func (d *Door) pass(w http.ResponseWriter, r *http.Request, who speaker) {
	p := d.proxy
	forward := httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			p.direct(pr.Out)
			who.sign(pr.Out)
		},
		Transport:     p.transport(who.trusted, isUpgrade(r)),
		FlushInterval: -1, // watch events at once
		BufferPool:    buffers,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				http.Error(w, fmt.Sprintf("proxy: the API server did not answer: %s", err), http.StatusBadGateway)
			}
		},
	}
	forward.ServeHTTP(w, r)
}

func (p *Proxy) direct(r *http.Request) {
	r.URL.Scheme, r.URL.Host, r.Host = p.target.Scheme, p.target.Host, ""
	if base := strings.TrimSuffix(p.target.Path, "/"); base != "" {
		r.URL.Path = base + r.URL.Path
		if r.URL.RawPath != "" {
			r.URL.RawPath = base + r.URL.RawPath
		}
	}
}

func (p *Proxy) transport(trusted, upgrade bool) http.RoundTripper {
	switch {
	case trusted && upgrade:
		return p.trustedUpgrade
	case trusted:
		return p.trusted
	case upgrade:
		return p.plainUpgrade
	}
	return p.plain
}

// exchange is one request of a run, and its answer.
type exchange struct {
	door *Door
	run  *Run
	who  speaker
	w    http.ResponseWriter
	r    *http.Request
	body []byte
	call wire.Call
}

// forward sends the request on. Writes are carried out to their end whoever goes away.
func (q *exchange) forward() (*http.Response, error) {
	ctx := q.r.Context()
	if q.writes() {
		ctx = context.WithoutCancel(ctx)
	}
	out := q.r.Clone(ctx)
	out.RequestURI = ""
	for _, hop := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"} {
		out.Header.Del(hop)
	}
	if q.writes() {
		out.Header.Del("Accept-Encoding") // the answer is read
	}
	out.Body, out.ContentLength = http.NoBody, 0
	if len(q.body) > 0 {
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(q.body)), int64(len(q.body))
	}
	q.door.proxy.direct(out)
	q.who.sign(out)
	return q.door.proxy.transport(q.who.trusted, false).RoundTrip(out)
}

func (q *exchange) writes() bool { return q.call.Item("").Write }

// give sends a whole answer.
func (q *exchange) give(code int, header http.Header, body []byte) {
	copyHeader(q.w.Header(), header)
	q.w.WriteHeader(code)
	_, _ = q.w.Write(body) // a client that has gone away needs no answer
}

// copyHeader leaves out what belongs to a connection.
func copyHeader(to, from http.Header) {
	for name, values := range from {
		switch name {
		case "Connection", "Keep-Alive", "Transfer-Encoding", "Trailer", "Upgrade":
		default:
			to[name] = values
		}
	}
}

// abandon ends the request without an answer: the client sees its connection break.
func abandon() { panic(http.ErrAbortHandler) }
