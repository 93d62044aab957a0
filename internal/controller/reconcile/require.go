package reconcile

import (
	"errors"

	"k8s.io/client-go/tools/cache"
)

// RequireRevisions returns an error if client-go's stores do not report their resourceVersion. A controller
// needs it to know whether a cache has its own writes.
func RequireRevisions() error {
	s := cache.NewStore(cache.MetaNamespaceKeyFunc)
	if s.Bookmark("1"); s.LastStoreSyncResourceVersion() == "1" {
		return nil
	}
	return errors.New("caches do not report their resourceVersion: remove the environment variable KUBE_FEATURE_AtomicFIFO, or set it to true")
}
