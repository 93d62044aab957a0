package controller

import (
	"context"
	"errors"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// verbs are the requests that change something, as RBAC calls them.
var verbs = map[string]string{
	http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// count wraps a transport so that every write is counted where it happens, on
// the wire, whichever part of the engine sent it.
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
	verb, ok := verbs[r.Method]
	if !ok || errors.Is(err, context.Canceled) {
		return answer, err // a read, or taken back by ourselves
	}
	result := "no-answer"
	if err == nil {
		result = resultOf(answer.StatusCode)
	}
	c.m.writes.WithLabelValues(verb, resourceOf(r.URL.Path), result).Inc()
	return answer, err
}

// WrappedRoundTripper lets client-go find the transport inside.
func (c counting) WrappedRoundTripper() http.RoundTripper { return c.next }

// resultOf names a status code as the API's reasons do.
func resultOf(code int) string {
	reason := metav1.StatusReasonInternalError
	switch code {
	case http.StatusBadRequest:
		reason = metav1.StatusReasonBadRequest
	case http.StatusUnauthorized:
		reason = metav1.StatusReasonUnauthorized
	case http.StatusForbidden:
		reason = metav1.StatusReasonForbidden
	case http.StatusNotFound:
		reason = metav1.StatusReasonNotFound
	case http.StatusConflict:
		reason = metav1.StatusReasonConflict
	case http.StatusUnprocessableEntity:
		reason = metav1.StatusReasonInvalid
	case http.StatusTooManyRequests:
		reason = metav1.StatusReasonTooManyRequests
	case http.StatusServiceUnavailable:
		reason = metav1.StatusReasonServiceUnavailable
	case http.StatusGatewayTimeout:
		reason = metav1.StatusReasonTimeout
	default:
		if code < 300 {
			return "ok"
		}
	}
	return string(reason)
}

// resourceOf is the resource, with its subresource, that a path is about:
// /api/v1/namespaces/NS/pods/NAME/status is pods/status.
func resourceOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i, part := range parts { // what stands before may be a proxy's prefix
		if part == "api" {
			parts = parts[min(i+2, len(parts)):]
			break
		}
		if part == "apis" {
			parts = parts[min(i+3, len(parts)):]
			break
		}
	}
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		parts = parts[2:]
	}
	switch len(parts) {
	case 0:
		return "unknown"
	case 1, 2:
		return parts[0]
	}
	return parts[0] + "/" + parts[2]
}
