package workload

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Freshness records what the caches must show before a controller decides again: the effect of its
// last writes for one owner.
//
// It does not count expected events. Any event of the resource, a bookmark or a new list reaches a
// revision. Deleted and released objects are looked up by UID, because the answer to a DELETE, and to
// a PATCH that removes the last finalizer of a terminating object, contains no revision to wait for.
// So a lost or repeated event can neither block nor mislead the controller.
//
// Each owner UID has its own Freshness; a new owner with the same name inherits nothing. The zero
// value is fresh.
type Freshness struct {
	revisions map[string]string
	gone      map[types.UID]bool
	unsettled map[string]bool
}

// Wrote records the revision in the answer to a write of a resource. The answers to concurrent writes
// may arrive in any order.
func (f *Freshness) Wrote(resource, revision string) {
	if f.revisions == nil {
		f.revisions = map[string]string{}
	}
	if last, ok := f.revisions[resource]; !ok || Older(last, revision) {
		f.revisions[resource] = revision
	}
}

// Gone records that an object was deleted or that its finalizer was removed. The cache is behind until
// it shows that.
func (f *Freshness) Gone(uid types.UID) {
	if f.gone == nil {
		f.gone = map[types.UID]bool{}
	}
	f.gone[uid] = true
}

// Unsettled records a write whose result is unknown. The cache is behind until Settled is called.
func (f *Freshness) Unsettled(name string) {
	if f.unsettled == nil {
		f.unsettled = map[string]bool{}
	}
	f.unsettled[name] = true
}

// Settled records that a live read has shown the result of an Unsettled write.
func (f *Freshness) Settled(name string) { delete(f.unsettled, name) }

// Open returns the names of unsettled writes, in no order.
func (f *Freshness) Open() (names []string) {
	for name := range f.unsettled {
		names = append(names, name)
	}
	return names
}

// Behind returns why a cache is behind the controller's own writes, "" if none is, and the resource of
// that cache; an empty resource stands for that of the objects that were created, deleted or
// released. reached returns the revision that the cache of a resource has reached, "" if it reports
// none; still reports whether the cache shows an object as it was before the write.
//
// A cache that does not report its revision counts as fresh; our controllers do not start with such
// caches (reconcile.RequireRevisions).
func (f *Freshness) Behind(reached func(resource string) string, still func(types.UID) bool) (resource, why string) {
	for name := range f.unsettled {
		return "", "the result of this write is not known yet: " + name
	}
	for resource, wrote := range f.revisions {
		if at := reached(resource); Older(at, wrote) {
			return resource, fmt.Sprintf("the cache of %s is at revision %s, the last own write at %s", resource, at, wrote)
		}
		delete(f.revisions, resource)
	}
	for uid := range f.gone {
		if still(uid) {
			return "", fmt.Sprintf("the cache still shows the object with UID %s as it was before the last own write", uid)
		}
		delete(f.gone, uid)
	}
	return "", ""
}

// Older reports whether a is an older revision than b (KEP-5504). Revisions that cannot be compared
// are not older.
func Older(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
