package store

import (
	"errors"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/btree"
)

var (
	// ErrCompacted means that a revision is older than the last compaction. A Storage turns it into
	// 410 Expired.
	ErrCompacted = errors.New("store: required revision has been compacted")
	// ErrFutureRevision means that a revision has not been reached yet.
	ErrFutureRevision = errors.New("store: required revision is a future revision")
)

const (
	// anyRevision, as the expected revision of a write, accepts any state of the key.
	anyRevision = -1
	// newestRevision reads the current state.
	newestRevision = math.MaxInt64
)

// World is one revision space: a set of keys, the revision of the last write, and the history since
// the last compaction. Its methods are safe for concurrent use.
type World struct {
	worlds *Worlds
	self   bool // whether the world keeps its own history within the budget

	// mu guards the fields below. Writers hold it while they compare revisions, assign the new
	// revision and deliver to watchers, never while they encode or decode. Readers hold it shared
	// while they collect versions, which are immutable.
	mu        sync.RWMutex
	closed    bool
	rev       int64
	compacted int64
	keys      btree.Map[string, *chain]
	log       changeLog
	expiries  expiries
	watchers  watchers

	counts counts // how many keys follow the pages that clients have read

	identity *identity // of a run's world
}

func newWorld(ws *Worlds, self bool) *World {
	return &World{worlds: ws, self: self, rev: 1, watchers: newWatchers()}
}

// Revision returns the revision of the last write; 1 if there was none.
func (w *World) Revision() int64 {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.rev
}

// CompactRevision returns the revision of the last compaction; 0 if there was
// none. Reads and watches from earlier revisions are rejected.
func (w *World) CompactRevision() int64 {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.compacted
}

// Compact drops the versions that were replaced or deleted up to revision rev. As in etcd, it
// returns [ErrCompacted] for a revision that was compacted before and [ErrFutureRevision] for one
// that has not been reached.
func (w *World) Compact(rev int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case rev <= w.compacted:
		return ErrCompacted
	case rev > w.rev:
		return ErrFutureRevision
	}
	for c := w.log.oldest(); c != nil && c.rev <= rev; c = w.log.oldest() {
		w.forget(c)
	}
	w.compacted = rev
	return nil
}

// forget drops the oldest change and the version that it replaced.
func (w *World) forget(c *change) {
	w.log.forget()
	w.compacted = c.rev
	if chain, ok := w.keys.Get(c.key); ok && chain.compact(c.rev) {
		w.keys.Delete(c.key)
	}
}

// keepBudget drops the oldest changes of the process's world until the rest is within the budget.
// Each write drops few changes, so there is no pause for a large compaction.
func (w *World) keepBudget(now int64) {
	if !w.self {
		return
	}
	limit, horizon := w.worlds.options.HistoryBytes, now-int64(w.worlds.options.HistoryAge)
	for c := w.log.oldest(); c != nil && (w.log.bytes > limit || c.at < horizon); c = w.log.oldest() {
		w.forget(c)
	}
}

// forgetOld applies the budget when there are no writes.
func (w *World) forgetOld(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keepBudget(now.UnixNano())
}

// live returns the current version of a key and the revision of the world.
func (w *World) live(key string) (*version, int64) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.liveLocked(key), w.rev
}

func (w *World) liveLocked(key string) *version {
	if c, ok := w.keys.Get(key); ok {
		return c.live()
	}
	return nil
}

// write commits next, or a delete if next is nil, if the key is at the expected revision (0: the
// key must not exist). It returns the previous version of the key; if ok is false, nothing was
// written.
func (w *World) write(key string, expected int64, next *version, ttl time.Duration) (before *version, rev int64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before = w.liveLocked(key)
	if expected != anyRevision && expected != revisionOf(before) {
		return before, w.rev, false
	}
	if next == nil && before == nil {
		return nil, w.rev, false
	}
	now := w.worlds.options.Clock.Now()
	w.append(key, before, next, now)
	if next != nil && ttl > 0 {
		w.expireAt(key, w.rev, now.Add(ttl))
	}
	return before, w.rev, true
}

func revisionOf(v *version) int64 {
	if v == nil {
		return 0
	}
	return v.rev
}

// append creates the next revision of the world: next at key, or its deletion.
func (w *World) append(key string, before, next *version, now time.Time) {
	rev := w.rev + 1
	if next == nil {
		next = &version{dead: true}
	} else {
		next.created, next.writes = rev, 1
		if before != nil {
			next.created, next.writes = before.created, before.writes+1
		}
	}
	next.rev = rev
	next.stamp()
	w.commit(key, before, next, now)
}

// commit makes a version, whose revision is set, the newest of its key and of the world, and
// delivers it to the watchers.
func (w *World) commit(key string, before, next *version, now time.Time) {
	w.rev = next.rev
	w.count(key, next)
	if c, ok := w.keys.Get(key); ok {
		c.versions = append(c.versions, next)
	} else {
		w.keys.Set(key, &chain{key: key, versions: []*version{next}})
	}
	c := &change{key: key, rev: w.rev, cur: next, prev: before, at: now.UnixNano()}
	w.log.add(c)
	w.watchers.deliver(c)
	w.keepBudget(c.at)
}

// keyed is a version with its key.
type keyed struct {
	key string
	*version
}

// span collects the versions in [from, end) that were current at rev, and returns the
// revision of the world. An empty end reads one key, "\x00" reads to the end of the world.
// newestRevision reads the current state. If keep is not zero, span collects at most keep versions and
// stops; with counting, it continues to count all.
func (w *World) span(from, end string, rev int64, keep int, counting bool) (found []keyed, count, at int64, err error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	switch {
	case rev == newestRevision:
	case rev > w.rev:
		return nil, 0, w.rev, ErrFutureRevision
	case rev < w.compacted:
		return nil, 0, w.rev, ErrCompacted
	}
	found, count = w.spanLocked(from, end, rev, keep, counting)
	return found, count, w.rev, nil
}

func (w *World) spanLocked(from, end string, rev int64, keep int, counting bool) (found []keyed, count int64) {
	look := func(key string, c *chain) bool {
		if end != toTheEnd && end != "" && key >= end {
			return false
		}
		if v := c.at(rev); v != nil {
			if keep == 0 || len(found) < keep {
				found = append(found, keyed{key, v})
			}
			count++
		}
		return counting || keep == 0 || len(found) < keep
	}
	if end != "" {
		w.keys.Ascend(from, look)
	} else if c, ok := w.keys.Get(from); ok {
		look(from, c)
	}
	return found, count
}

// toTheEnd, as the end of a span, is etcd's value for "no end".
const toTheEnd = "\x00"

// prefixEnd returns the first key after all keys that begin with prefix.
func prefixEnd(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return toTheEnd
}

// close ends all watches and rejects new ones.
func (w *World) close() {
	w.mu.Lock()
	w.closed = true
	all := w.watchers.all()
	w.mu.Unlock()
	for _, watcher := range all {
		watcher.Stop()
	}
}

// ancestors calls visit with every prefix of key that ends in a slash.
func ancestors(key string, visit func(prefix string)) {
	for i := 0; i < len(key); i++ {
		j := strings.IndexByte(key[i:], '/')
		if j < 0 {
			return
		}
		i += j
		visit(key[:i+1])
	}
}
