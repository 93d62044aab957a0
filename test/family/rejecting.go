package family

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Rejecting returns a controller whose patches of paths with this suffix ("/pods/lone") are always answered
// with an error, as by a policy or by an unavailable webhook.
func Rejecting(path string, answer *apierrors.StatusError, run func(context.Context, *rest.Config) error) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, config *rest.Config) error {
		config = rest.CopyConfig(config)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return rejecting{next, path, answer.ErrStatus} })
		return run(ctx, config)
	}
}

type rejecting struct {
	next   http.RoundTripper
	path   string
	answer metav1.Status
}

// RoundTrip implements http.RoundTripper.
func (r rejecting) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodPatch || !strings.HasSuffix(request.URL.Path, r.path) {
		return r.next.RoundTrip(request)
	}
	r.answer.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	body, err := json.Marshal(r.answer)
	return &http.Response{
		StatusCode: int(r.answer.Code), Header: http.Header{"Content-Type": []string{"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body)), Request: request,
	}, err
}
