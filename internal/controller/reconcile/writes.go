package reconcile

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrStale: the API knows something that the cache does not show yet. No harm was done;
// it is decided again.
var ErrStale = errors.New("the cache is behind the API")

// Each does n things, several at a time, until begin says no or ctx ends, and waits for
// those that were begun. The first error that is not ErrStale is returned, else ErrStale if
// there was any. begin is asked before each with the errors so far.
func Each(ctx context.Context, n, atATime int, begin func(i int, failed error) bool, do func(i int) error) error {
	var (
		workers sync.WaitGroup
		next    atomic.Int64
		failed  atomic.Pointer[error]
		stale   atomic.Bool
	)
	work := func() {
		for ctx.Err() == nil {
			i := int(next.Add(1)) - 1
			if i >= n {
				return
			}
			var so error
			if err := failed.Load(); err != nil {
				so = *err
			}
			if !begin(i, so) {
				continue
			}
			switch err := do(i); {
			case errors.Is(err, ErrStale):
				stale.Store(true)
			case err != nil:
				failed.CompareAndSwap(nil, &err)
			}
		}
	}
	for range min(atATime, n) - 1 {
		workers.Go(work)
	}
	work()
	workers.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	if stale.Load() {
		return ErrStale
	}
	return nil
}

// Refused tells whether an error says that a write had no effect.
func Refused(err error) bool {
	switch {
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err), apierrors.IsNotFound(err),
		apierrors.IsConflict(err), apierrors.IsTooManyRequests(err), apierrors.IsUnauthorized(err), apierrors.IsMethodNotSupported(err),
		apierrors.IsRequestEntityTooLargeError(err), apierrors.IsUnsupportedMediaType(err):
		return true
	}
	return false
}

// PatchError returns NotFound in place of the error of a patch that names the UID of an object whose name another object
// has by now: the API server answers such a patch with 422 Invalid, because a UID is immutable
// (apimachinery, pkg/api/validation/objectmeta.go), and not with 409. Other errors are returned as they are. live
// reads the object that has the name.
func PatchError(err error, resource string, patched metav1.Object, live func() (metav1.Object, error)) error {
	if !apierrors.IsInvalid(err) {
		return err
	}
	now, missing := live()
	if apierrors.IsNotFound(missing) || missing == nil && now.GetUID() != patched.GetUID() {
		return apierrors.NewNotFound(schema.GroupResource{Resource: resource}, patched.GetName())
	}
	return err
}
