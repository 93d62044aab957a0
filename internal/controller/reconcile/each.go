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

// ErrStale is the error that the API has a newer state than the cache that the decision was made from. Nothing
// was written; the next plan decides again.
var ErrStale = errors.New("the cache is behind the API")

// Each calls do for 0 to n-1, atATime of them concurrently, and waits until all calls have returned. Before
// each call it calls begin with the first error so far, and skips the call if begin returns false or ctx has
// ended. It returns the first error that is not ErrStale, else ErrStale if a call returned that.
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
			var first error
			if err := failed.Load(); err != nil {
				first = *err
			}
			if !begin(i, first) {
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

// Rejected reports whether an error is an answer of the API that says that a write had no effect.
func Rejected(err error) bool {
	switch {
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err), apierrors.IsNotFound(err),
		apierrors.IsConflict(err), apierrors.IsTooManyRequests(err), apierrors.IsUnauthorized(err), apierrors.IsMethodNotSupported(err),
		apierrors.IsRequestEntityTooLargeError(err), apierrors.IsUnsupportedMediaType(err):
		return true
	}
	return false
}

// patchError returns NotFound in place of the error of a patch whose UID is not that of the object that has
// the name now: the API server answers such a patch with 422 Invalid and not with 409, because a UID is
// immutable (apimachinery, pkg/api/validation/objectmeta.go). It returns other errors unchanged. live reads
// the object that has the name.
func patchError(err error, resource string, patched metav1.Object, live func() (metav1.Object, error)) error {
	if !apierrors.IsInvalid(err) {
		return err
	}
	now, missing := live()
	if apierrors.IsNotFound(missing) || missing == nil && now.GetUID() != patched.GetUID() {
		return apierrors.NewNotFound(schema.GroupResource{Resource: resource}, patched.GetName())
	}
	return err
}
