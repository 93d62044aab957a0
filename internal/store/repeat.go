package store

import "fmt"

// Change is one write of a world. Another world in the same state may repeat it instead of
// processing the same request.
type Change struct {
	Key      string
	Revision int64
	// Value is the key's new value, as stored; nil after a delete. It is shared and must not be
	// modified.
	Value []byte

	version *version
}

// Size returns roughly how many bytes of memory the change takes.
func (c *Change) Size() int64 { return changeOverhead + decodedFactor*int64(len(c.Value)) }

// Changes returns the writes after a revision, oldest first. It returns [ErrCompacted] if some of
// them were compacted.
func (w *World) Changes(after int64) ([]Change, error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if after < w.compacted {
		return nil, ErrCompacted
	}
	since := w.log.since(after)
	if len(since) == 0 {
		return nil, nil
	}
	changes := make([]Change, len(since))
	for i, c := range since {
		changes[i] = Change{Key: c.key, Revision: c.rev, Value: c.cur.value, version: c.cur}
	}
	return changes, nil
}

// Repeat applies the writes of another run's world in one step. The worlds share the immutable
// values. If the worlds are at different revisions, it returns an error and writes nothing.
func (w *World) Repeat(changes []Change) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(changes) > 0 && changes[0].Revision != w.rev+1 {
		return fmt.Errorf("store: writes from revision %d on cannot be repeated at revision %d", changes[0].Revision, w.rev)
	}
	now := w.worlds.options.Clock.Now()
	for i := range changes {
		w.commit(changes[i].Key, w.liveLocked(changes[i].Key), changes[i].version, now)
	}
	return nil
}

// count counts the incarnations of a run's objects.
func (w *World) count(key string, v *version) {
	if w.identity != nil && !v.dead && v.writes == 1 {
		w.identity.made[key]++
	}
}
