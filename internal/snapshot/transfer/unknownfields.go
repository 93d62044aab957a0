package transfer

import (
	"context"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// maxUnknownFields is how many fields that the API server does not know are named.
const maxUnknownFields = 10

// unknownFields passes on the API server's warnings about fields that it does not know, and that are therefore not restored: a user may have edited the file, or
// the file is of a newer version. Each is named once; other warnings, such as those about deprecated versions, are ignored.
type unknownFields struct {
	warn func(format string, args ...any)

	mu    sync.Mutex
	named map[string]bool
}

type writtenObject struct{}

// withObject returns a context for requests that write this object.
func withObject(ctx context.Context, obj *unstructured.Unstructured) context.Context {
	return context.WithValue(ctx, writtenObject{}, describe(obj))
}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (u *unknownFields) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	obj, ok := ctx.Value(writtenObject{}).(string)
	if !ok || code != 299 || !strings.HasPrefix(text, "unknown field") { // 299 is the code of all warnings of Kubernetes
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.named) > maxUnknownFields || u.named[obj+text] {
		return
	}
	if u.named == nil {
		u.named = map[string]bool{}
	}
	u.named[obj+text] = true
	if len(u.named) > maxUnknownFields {
		u.warn("more fields are not restored, because the API server does not know them")
		return
	}
	u.warn("%s: %s is not restored", obj, text)
}
