package reconcile

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestResult checks that an error and the status code that it comes from have the same label.
func TestResult(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
		want string
	}{
		{nil, 201, "success"},
		{apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p", errors.New("changed")), 409, "Conflict"},
		{fmt.Errorf("patch pod p: %w", apierrors.NewTooManyRequests("later", 1)), 429, "TooManyRequests"},
		{apierrors.NewInternalError(errors.New("x")), 500, "InternalError"},
		{apierrors.NewTimeoutError("x", 0), 504, "Timeout"},
		{context.DeadlineExceeded, 504, "Timeout"},
		{&url.Error{Op: "Put", URL: "u", Err: errors.New("refused")}, 0, NoAnswer},
		{errors.New("the template fails"), 0, Other},
	} {
		if got := Result(c.err); got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
		if c.code != 0 && ResultOf(c.code) != c.want {
			t.Errorf("%d: %s, want %s", c.code, ResultOf(c.code), c.want)
		}
	}
}
