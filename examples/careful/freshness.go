package careful

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// freshness reports whether the caches show what this controller wrote.
type freshness struct {
	owners, pods cache.Store

	mu    sync.Mutex
	wrote map[cache.ObjectName]revisions
}

// revisions are those of the last writes on behalf of one owner.
type revisions struct{ owner, pods string }

func newFreshness(owners, pods cache.Store) *freshness {
	return &freshness{owners: owners, pods: pods, wrote: map[cache.ObjectName]revisions{}}
}

func (f *freshness) wroteOwner(key cache.ObjectName, revision string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.wrote[key]
	r.owner = newer(r.owner, revision)
	f.wrote[key] = r
}

func (f *freshness) wrotePod(key cache.ObjectName, revision string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.wrote[key]
	r.pods = newer(r.pods, revision)
	f.wrote[key] = r
}

// behind reports whether a cache has not reached the controller's own write for an owner.
func (f *freshness) behind(key cache.ObjectName) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.wrote[key]
	if older(f.owners.LastStoreSyncResourceVersion(), r.owner) || older(f.pods.LastStoreSyncResourceVersion(), r.pods) {
		return true
	}
	delete(f.wrote, key)
	return false
}

func newer(a, b string) string {
	if a == "" || older(a, b) {
		return b
	}
	return a
}

// older reports whether a is known to be an older revision than b. A cache that does not report its
// revision (the client's feature AtomicFIFO is off) is used as it is: the writes stay harmless,
// whereas waiting could last forever.
func older(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
