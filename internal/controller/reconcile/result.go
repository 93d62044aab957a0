package reconcile

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The label "result" of metrics is Success, a reason of the API (metav1.StatusReason: Conflict, Forbidden...),
// NoAnswer for a request that no server answered, or Other for an error that no request caused.
const (
	Success  = "success"
	NoAnswer = "NoAnswer"
	Other    = "Other"
)

// Result is the label "result" of metrics for an error; nil is Success.
func Result(err error) string {
	var reached *url.Error
	var network net.Error
	if err == nil {
		return Success
	}
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		return string(reason)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return string(metav1.StatusReasonTimeout)
	case errors.As(err, &reached), errors.As(err, &network):
		return NoAnswer
	}
	return Other
}

// ResultOf is Result for the status code of an answer.
func ResultOf(code int) string {
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
			return Success
		}
	}
	return string(reason)
}
