package workload

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Freshness is what the caches must show before a decision may be made from them:
// the effect of the last writes that were made for one owner.
//
// It counts no events. A revision is reached by any event of its kind, a bookmark or
// a new list, and what was deleted or released is looked up by UID, because the
// answer to a DELETE, and to a PATCH that removes the last finalizer of an object that
// is being deleted, carries no revision that could be waited for. So an event that
// never comes, or comes twice, can neither block it nor deceive it.
//
// It is kept by the UID of the owner: an owner of the same name inherits nothing.
// The zero value is fresh.
type Freshness struct {
	revisions map[string]string
	gone      map[types.UID]bool
	unsettled map[string]bool
}

// Wrote notes the revision that the answer to a write of a resource carried. Answers
// of writes that were made at the same time may come in any order.
func (f *Freshness) Wrote(resource, revision string) {
	if f.revisions == nil {
		f.revisions = map[string]string{}
	}
	if last, ok := f.revisions[resource]; !ok || Older(last, revision) {
		f.revisions[resource] = revision
	}
}

// Gone notes that an object was deleted, or that what held it was removed: it is
// waited for until the cache shows that.
func (f *Freshness) Gone(uid types.UID) {
	if f.gone == nil {
		f.gone = map[types.UID]bool{}
	}
	f.gone[uid] = true
}

// Unsettled notes a write of which nobody knows whether it had effect; Settled that
// a read has told since.
func (f *Freshness) Unsettled(name string) {
	if f.unsettled == nil {
		f.unsettled = map[string]bool{}
	}
	f.unsettled[name] = true
}

// Settled ends what Unsettled began.
func (f *Freshness) Settled(name string) { delete(f.unsettled, name) }

// Open are the names of unsettled writes, in no order.
func (f *Freshness) Open() (names []string) {
	for name := range f.unsettled {
		names = append(names, name)
	}
	return names
}

// Behind says what a cache does not show yet, or "", and of which resource; "" is that
// of the objects that were made, deleted or let go. reached is the revision that
// the cache of a resource has reached, "" if it does not tell; still tells whether the
// cache shows an object as if nothing had been done to it.
//
// A cache that does not report its revision is taken as it is; our controllers do not
// start with such caches (reconcile.RequireRevisions).
func (f *Freshness) Behind(reached func(resource string) string, still func(types.UID) bool) (resource, why string) {
	for name := range f.unsettled {
		return "", "nobody knows yet what became of the last write of " + name
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

// Older tells whether a is known to be an older revision than b (KEP-5504). What
// cannot be compared is not known to be.
func Older(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
