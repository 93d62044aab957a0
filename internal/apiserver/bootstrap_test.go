package apiserver

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// TestWhenAdmitted: a hook tries again while an admission plugin is not ready or the server is too busy, and ends without an error
// when the server stops. Any other error is that of the hook.
func TestWhenAdmitted(t *testing.T) {
	namespaces := schema.GroupResource{Resource: "namespaces"}
	notReady := fmt.Errorf("namespace default: %w", apierrors.NewForbidden(namespaces, "default", errors.New("not yet ready to handle request")))
	quota := apierrors.NewForbidden(namespaces, "default", errors.New("exceeded quota"))
	for name, c := range map[string]struct {
		answers  []error
		stopped  bool // with the last answer
		want     error
		attempts int
	}{
		"admitted":         {answers: []error{nil}, attempts: 1},
		"not ready":        {answers: []error{notReady, notReady, nil}, attempts: 3},
		"busy":             {answers: []error{apierrors.NewTooManyRequests("busy", 1), apierrors.NewTimeoutError("slow", 1), apierrors.NewServerTimeout(namespaces, "create", 1), nil}, attempts: 4},
		"rejected":         {answers: []error{notReady, quota, nil}, want: quota, attempts: 2},
		"stopped":          {answers: []error{context.Canceled, nil}, stopped: true, attempts: 1},
		"stopped, waiting": {answers: []error{notReady, nil}, stopped: true, attempts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				n := 0
				hook := whenAdmitted(func(context.Context) error {
					n++
					if c.stopped {
						stop()
					}
					return c.answers[n-1]
				})
				if err := hook(genericapiserver.PostStartHookContext{Context: ctx}); err != c.want || n != c.attempts {
					t.Errorf("%v after %d attempts, want %v after %d", err, n, c.want, c.attempts)
				}
			})
		})
	}
}

// TestNeverAdmitted: a server that never becomes ready, or a start that ends, is reported with the last answer. A hook, whose error would terminate the process,
// has no limit.
func TestNeverAdmitted(t *testing.T) {
	notReady := apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "default", errors.New("not yet ready to handle request"))
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		err := UntilAdmitted(t.Context(), func(context.Context) error { return notReady })
		if waited := time.Since(begun); !errors.Is(err, notReady) || waited < admittedTimeout || waited > admittedTimeout+time.Second {
			t.Errorf("%v after %s", err, waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := UntilAdmitted(ctx, func(context.Context) error { return notReady }); !errors.Is(err, notReady) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the start has ended: %v", err)
		}
		begun = time.Now()
		hook := whenAdmitted(func(context.Context) error {
			if time.Since(begun) < 2*admittedTimeout {
				return notReady
			}
			return nil
		})
		if err := hook(genericapiserver.PostStartHookContext{Context: t.Context()}); err != nil {
			t.Errorf("the hook has ended: %v", err)
		}
	})
}
