package store

import (
	"bytes"
	"fmt"
)

// Modified compares each object that readers share with its stored bytes, and returns how many it compared and those that a reader has
// modified, which no reader may do. It is for tests, and holds the lock of the process's world meanwhile.
func (ws *Worlds) Modified() (compared int, modified []string) {
	w := ws.World("")
	w.mu.RLock()
	defer w.mu.RUnlock()
	check := func(key string, v *version) {
		if v == nil || v.dead {
			return
		}
		d := v.decoded.Load()
		if d == nil || d.by.transformer != nil {
			return
		}
		compared++
		if rev, err := d.by.versioner.ObjectResourceVersion(d.obj); err != nil || int64(rev) != v.rev {
			modified = append(modified, fmt.Sprintf("%s at revision %d has the resourceVersion %d: %v", key, v.rev, rev, err))
		}
		if data, err := d.by.encode(d.obj.DeepCopyObject()); err != nil || !bytes.Equal(data, v.value) {
			modified = append(modified, fmt.Sprintf("%s at revision %d: %v\n%s\nstored was\n%s", key, v.rev, err, data, v.value))
		}
	}
	w.keys.Scan(func(key string, c *chain) bool {
		for _, v := range c.versions {
			check(key, v)
		}
		return true
	})
	for _, c := range w.log.changes {
		check(c.key, c.prev)
	}
	return compared, modified
}
