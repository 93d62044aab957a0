package stages

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/rehearse-k8s/rehearse/internal/controller/reconcile"
	"github.com/rehearse-k8s/rehearse/internal/wire"
)

// count wraps a transport so that it counts every write of the engine, whichever part has sent it.
func (m *Metrics) count(next http.RoundTripper) http.RoundTripper {
	return counting{m, next}
}

type counting struct {
	m    *Metrics
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.next.RoundTrip(r)
	if r.Method == http.MethodGet || errors.Is(err, context.Canceled) {
		return answer, err // a read, or a request that the engine has cancelled
	}
	call := wire.DescribePath(r.Method, r.URL.Path)
	result := reconcile.NoAnswer
	if err == nil {
		result = reconcile.ResultOf(answer.StatusCode)
	}
	c.m.writes.WithLabelValues(call.Verb, resourceOf(&call), result).Inc()
	return answer, err
}

// WrappedRoundTripper returns the wrapped transport, for client-go.
func (c counting) WrappedRoundTripper() http.RoundTripper { return c.next }

// resourceOf returns the resource as a label, with its subresource and without its group: pods/status.
func resourceOf(c *wire.Call) string {
	resource, _, _ := strings.Cut(c.Resource, ".")
	switch {
	case resource == "":
		return "unknown"
	case c.Subresource == "":
		return resource
	}
	return resource + "/" + c.Subresource
}
