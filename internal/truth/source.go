package truth

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rehearse-k8s/rehearse/internal/store"
)

// Source is a world that can be followed: what it holds, write by write.
type Source interface {
	// Held is what it holds now, the revision that it has reached, and the cursor after the
	// writes that have led there.
	Held() (kvs []store.KV, revision, cursor int64, err error)
	// Changes are the writes after a cursor, oldest first, and the cursor after them.
	Changes(cursor int64) (changes []store.Change, next int64, err error)
	// Directory is the beginning of all keys of a resource, with its last slash; "" if it is
	// not served.
	Directory(resource schema.GroupResource) string
	// ResourceOf is the resource that a key belongs to; false: none.
	ResourceOf(key string) (resource schema.GroupResource, ok bool)
}

// Stored is a run's world in a store of this process. Its cursors are revisions.
type Stored struct {
	*store.Worlds
	World *store.World
}

var _ Source = Stored{}

// Held implements Source.
func (s Stored) Held() (kvs []store.KV, revision, cursor int64, err error) {
	revision = s.World.Revision()
	kvs, _, _, err = s.World.RawRange("", "\x00", 0, 0)
	return kvs, revision, revision, err
}

// Changes implements Source.
func (s Stored) Changes(cursor int64) (changes []store.Change, next int64, err error) {
	changes, err = s.World.Changes(cursor)
	if n := len(changes); n > 0 {
		cursor = changes[n-1].Revision
	}
	return changes, cursor, err
}
