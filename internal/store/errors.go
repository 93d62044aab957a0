package store

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// The texts of 410 Expired are identical to upstream's where clients and upstream's tests look for
// them.
const (
	listTooOld     = "The resourceVersion for the provided list is too old."
	watchTooOld    = "The resourceVersion for the provided watch is too old."
	continueTooOld = "The provided continue parameter is too old to display a consistent list result. " +
		"You can start a new list without the continue parameter."
	continueInconsistent = "The provided continue parameter is too old to display a consistent list result. " +
		"You can start a new list without the continue parameter, or use the continue token in this response to " +
		"retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - " +
		"objects that were created, modified, or deleted between the time the first chunk was returned and now may " +
		"show up in the list."
	tooFarBehind = "The watch fell too far behind and was ended."
)

func errWatchTooOld() error  { return apierrors.NewResourceExpired(watchTooOld) }
func errTooFarBehind() error { return apierrors.NewResourceExpired(tooFarBehind) }

// errFutureWatch asks the client to retry after one to three seconds. As in etcd3, the delays
// differ so that many clients do not retry at once; here they depend on the revisions, so that a
// repeated run waits equally long.
func errFutureWatch(rv, now int64) error {
	return storage.NewTooLargeResourceVersionError(uint64(rv), uint64(now), 1+int((rv+now)%3))
}

// errListTooOld is the answer to a list at a compacted revision. A paged list gets a token with
// which it can continue at the current revision.
func errListTooOld(paging bool, from, prefix string) error {
	if !paging {
		return apierrors.NewResourceExpired(listTooOld)
	}
	token, err := storage.EncodeContinue(from, prefix, -1)
	if err != nil {
		return apierrors.NewResourceExpired(continueTooOld)
	}
	expired := apierrors.NewResourceExpired(continueInconsistent)
	expired.ErrStatus.ListMeta.Continue = token
	return expired
}

// errorEvent returns the last event of a watch that fails.
func errorEvent(err error) *watch.Event {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	return &watch.Event{Type: watch.Error, Object: &status}
}

// unsafeDeletion reports whether unreadable objects may be deleted.
func unsafeDeletion() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.AllowUnsafeMalformedObjectDeletion)
}

// corrupt marks the error of a read so that the registry recognizes objects that it may delete
// without reading them, if that is allowed.
func corrupt(key string, err error) error {
	if err == nil || !unsafeDeletion() {
		return err
	}
	return storage.NewCorruptObjError(key, err)
}

// corruptDelete returns the watch event for the deletion of an unreadable object.
func (s *objects) corruptDelete(err error) error {
	if !unsafeDeletion() {
		return err
	}
	return storeReadError("saw a DELETED event, but object data is corrupt - "+err.Error(), nil)
}

func storeReadError(message string, details *metav1.StatusDetails) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusInternalServerError,
		Reason:  metav1.StatusReasonStoreReadError,
		Message: message,
		Details: details,
	}}
}
