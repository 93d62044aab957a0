package store

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage"
)

// maxCorrupt is the maximum number of unreadable objects that a list reports.
const maxCorrupt = 100

// continueAfter records an unreadable object and reports whether the list continues, so that an
// administrator who may delete such objects sees all of them. Without that permission the first one
// fails the list.
func (l *lister) continueAfter(key string, err error) bool {
	if !unsafeDeletion() {
		return false
	}
	l.corrupt = append(l.corrupt, corrupt(key, err))
	return len(l.corrupt) <= maxCorrupt
}

// corruption is the error of a list that contains unreadable objects.
func (l *lister) corruption() error {
	if len(l.corrupt) == 0 {
		return nil
	}
	details := &metav1.StatusDetails{
		Group: l.objects.resource.Group,
		Kind:  l.objects.resource.Resource,
		Name:  "list",
	}
	for _, err := range l.corrupt {
		cause := metav1.StatusCause{Type: metav1.CauseTypeUnexpectedServerResponse, Message: err.Error()}
		var known *storage.StorageError
		if errors.As(err, &known) {
			cause.Field = known.Key
		}
		details.Causes = append(details.Causes, cause)
	}
	return storeReadError(fmt.Sprintf("failed to read one or more %s from the storage", l.objects.resource), details)
}
