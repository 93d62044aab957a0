package rehearsal

import (
	"github.com/rehearse-k8s/rehearse/internal/store"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// source returns the writes to the API of a run, one by one.
type source interface {
	verdict.Resources
	// current returns the stored objects, the revision of the last write, and the cursor after it.
	current() (kvs []store.KV, revision, cursor int64, err error)
	// changes returns the writes after a cursor, oldest first, and the cursor after them.
	changes(cursor int64) (changes []store.Change, next int64, err error)
}

// storeSource is a source over an in-process store. Its cursors are revisions.
type storeSource struct {
	*store.Worlds
	world *store.World
}

var _ source = storeSource{}

func (s storeSource) current() (kvs []store.KV, revision, cursor int64, err error) {
	revision = s.world.Revision()
	kvs, _, _, err = s.world.RawRange("", "\x00", 0, 0)
	return kvs, revision, revision, err
}

func (s storeSource) changes(cursor int64) (changes []store.Change, next int64, err error) {
	changes, err = s.world.Changes(cursor)
	if n := len(changes); n > 0 {
		cursor = changes[n-1].Revision
	}
	return changes, cursor, err
}

// follower passes the writes of a source to the objects of a run.
type follower struct {
	*verdict.Objects
	source source
	cursor int64
}

// newFollower starts with the objects that the source stores now.
func newFollower(s source, o verdict.ObjectsOptions) (*follower, error) {
	kvs, revision, cursor, err := s.current()
	if err != nil {
		return nil, err
	}
	initial := make([]verdict.Write, len(kvs))
	for n, kv := range kvs {
		initial[n] = verdict.Write{Key: kv.Key, Value: kv.Value, Revision: kv.ModRevision}
	}
	o.Resources = s
	return &follower{Objects: verdict.NewObjects(o, revision, initial), source: s, cursor: cursor}, nil
}

// follow takes the writes since the last call and returns them.
func (f *follower) follow() (changes []verdict.Change, err error) {
	writes, next, err := f.source.changes(f.cursor)
	f.cursor = next
	for _, w := range writes {
		changes = append(changes, f.Take(verdict.Write{Key: w.Key, Value: w.Value, Revision: w.Revision}))
	}
	return changes, err
}
