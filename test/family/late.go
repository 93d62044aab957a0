package family

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/simtest"
)

// Send sends a request and returns the response to it.
type Send func(*http.Request) (*http.Response, error)

// Through returns a controller whose requests go through between, which may send them or not.
func Through(run simtest.Constructor, between func(r *http.Request, send Send) (*http.Response, error)) simtest.Constructor {
	return func(ctx context.Context, config *rest.Config) error {
		config = rest.CopyConfig(config)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return interceptor{next, between} })
		return run(ctx, config)
	}
}

type interceptor struct {
	next    http.RoundTripper
	between func(*http.Request, Send) (*http.Response, error)
}

// RoundTrip implements http.RoundTripper.
func (i interceptor) RoundTrip(r *http.Request) (*http.Response, error) {
	return i.between(r, i.next.RoundTrip)
}

// LateCommit returns a controller whose nth write (from 1) is answered with 504 and commits seven seconds later, as may
// happen when etcd changes its leader. A create commits after 0.3 seconds: later than that, the user may have changed
// the owner, and no controller can prevent one pod too many.
func LateCommit(run simtest.Constructor, n int) simtest.Constructor {
	writes := 0
	return Through(run, func(r *http.Request, send Send) (*http.Response, error) {
		if r.Method == http.MethodGet {
			return send(r)
		}
		if writes++; writes != n {
			return send(r)
		}
		return timedOut(r, send)
	})
}

// timedOut answers a request with 504 and sends it later.
func timedOut(r *http.Request, send Send) (*http.Response, error) {
	later := r.Clone(context.WithoutCancel(r.Context()))
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		later.Body = body
	}
	after := 7 * time.Second
	if r.Method == http.MethodPost {
		after = 300 * time.Millisecond
	}
	time.AfterFunc(after, func() {
		if answer, err := send(later); err == nil {
			_ = answer.Body.Close()
		}
	})
	status := apierrors.NewTimeoutError("request did not complete within requested timeout", 0).ErrStatus
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	body, err := json.Marshal(status)
	return &http.Response{
		StatusCode: http.StatusGatewayTimeout, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), Request: r,
	}, err
}
