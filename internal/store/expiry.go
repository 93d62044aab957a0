package store

import (
	"container/heap"
	"time"
)

// expiry is the end of a version's time to live.
type expiry struct {
	key string
	rev int64 // the version; the expiry is void if the key was written since
	due time.Time
}

// expiries is a heap with the earliest expiry first.
type expiries []expiry

func (e expiries) Len() int           { return len(e) }
func (e expiries) Less(i, j int) bool { return e[i].due.Before(e[j].due) }
func (e expiries) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *expiries) Push(x any)        { *e = append(*e, x.(expiry)) }
func (e *expiries) Pop() any {
	old := *e
	last := old[len(old)-1]
	old[len(old)-1] = expiry{}
	*e = old[:len(old)-1]
	return last
}

// expireAt records when a version that was just written expires.
func (w *World) expireAt(key string, rev int64, due time.Time) {
	first := len(w.expiries) == 0 || due.Before(w.expiries[0].due)
	heap.Push(&w.expiries, expiry{key: key, rev: rev, due: due})
	if first && w.self {
		select {
		case w.worlds.wake <- struct{}{}:
		default:
		}
	}
}

// expiryBatch is the maximum number of expiries that are processed while the world's lock is held.
// Writers wait for one batch, not for all that are due at once.
const expiryBatch = 128

// Expire deletes the objects whose time to live has ended at now, each with its own revision and
// watch event. It returns when the next expiry is due, if pending is true. Other writes may occur
// between two deletions.
func (w *World) Expire(now time.Time) (next time.Time, pending bool) {
	for {
		next, pending, more := w.expireBatch(now)
		if !more {
			return next, pending
		}
	}
}

// expireBatch processes at most expiryBatch expiries; more is true if others may be due.
func (w *World) expireBatch(now time.Time) (next time.Time, pending, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range expiryBatch {
		if len(w.expiries) == 0 {
			return time.Time{}, false, false
		}
		first := w.expiries[0]
		live := w.liveLocked(first.key)
		current := revisionOf(live) == first.rev // otherwise the key was written or deleted since
		if current && first.due.After(now) {
			return first.due, true, false
		}
		heap.Pop(&w.expiries)
		if current {
			w.append(first.key, live, nil, now)
		}
	}
	return time.Time{}, false, true
}
