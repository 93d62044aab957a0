package proxy

import (
	"bytes"
	"io"
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/internal/wire"
)

// Permit is the decision of a guard about a delete.
type Permit struct {
	// Only is the UID of the one object that may be deleted. The proxy adds it as a precondition,
	// because another object may have replaced the object. If it is empty, the proxy sends the
	// delete unchanged.
	Only types.UID
	// Denied is the answer to a denied delete. Without Only, the proxy answers it at once; with
	// Only, if the API server finds an object with another UID.
	Denied error
}

// guarded applies the guard to a delete. It returns the body and headers to send; denied is set if
// the request must not be sent.
func (r *Run) guarded(c *wire.Call, u *url.URL, header http.Header, body []byte) (_ []byte, _ http.Header, p Permit, denied error) {
	if r.hooks.Guard == nil || c.Verb != "delete" && c.Verb != "deletecollection" {
		return body, header, p, nil
	}
	p = r.hooks.Guard(c)
	if p.Only == "" {
		return body, header, p, p.Denied
	}
	body, err := wire.OnlyUID(body, u.Query(), p.Only)
	if err != nil {
		return nil, nil, p, err
	}
	header = header.Clone()
	header.Set("Content-Type", "application/json")
	return body, header, p, nil
}

// denies reports whether the API server has found an object other than the one that may be deleted.
func (p *Permit) denies(code int) bool { return p.Denied != nil && code == http.StatusConflict }

// response converts an answer to the response of a transport.
func response(a wire.Answer, r *http.Request) *http.Response {
	return &http.Response{
		Status: http.StatusText(a.Code), StatusCode: a.Code, Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: a.Header, Body: io.NopCloser(bytes.NewReader(a.Body)), ContentLength: int64(len(a.Body)), Request: r,
	}
}
