package store

import "fmt"

// Writes are changes of one run's world that another run's may repeat, because it is
// in the same state and was asked the same.
type Writes struct {
	keys     []string
	versions []*version
	size     int64
}

// Size is about how many bytes of memory the writes keep.
func (ws Writes) Size() int64 { return ws.size }

// WritesSince returns what a run's world was written after a revision.
func (w *World) WritesSince(after int64) (ws Writes) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, c := range w.log.since(after) {
		ws.keys = append(ws.keys, c.key)
		ws.versions = append(ws.versions, c.cur)
		ws.size += changeOverhead + decodedFactor*int64(len(c.cur.value))
	}
	return ws
}

// Repeat writes what another run's world was written, in one step. The versions are
// shared between the two: they do not change. It is an error, and nothing is written,
// if the worlds are at different revisions.
func (w *World) Repeat(ws Writes) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(ws.versions) > 0 && ws.versions[0].rev != w.rev+1 {
		return fmt.Errorf("store: writes from revision %d on cannot be repeated at revision %d", ws.versions[0].rev, w.rev)
	}
	now := w.worlds.options.Clock.Now().UnixNano()
	for i, v := range ws.versions {
		key := ws.keys[i]
		before := w.liveLocked(key)
		w.rev = v.rev
		if c, ok := w.keys.Get(key); ok {
			c.versions = append(c.versions, v)
		} else {
			w.keys.Set(key, &chain{key: key, versions: []*version{v}})
		}
		w.count(key, v)
		c := &change{key: key, rev: v.rev, cur: v, prev: before, at: now}
		w.log.add(c)
		w.watchers.tell(c)
	}
	return nil
}

// count counts the incarnations of a run's objects.
func (w *World) count(key string, v *version) {
	if w.identity != nil && !v.dead && v.writes == 1 {
		w.identity.made[key]++
	}
}
