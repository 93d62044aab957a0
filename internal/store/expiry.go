package store

import (
	"container/heap"
	"time"
)

// expiry is the end of one version's time to live.
type expiry struct {
	key string
	rev int64 // the version; if the key has moved on, the expiry means nothing
	due time.Time
}

// expiries is a heap, the next to fall due first.
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

// expireAt notes when a version that was just written ends.
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

// expiryBatch is how many expiries are dealt with under one hold of the world's lock.
// Writers wait for one batch, not for all that falls due at once.
const expiryBatch = 128

// Expire deletes the objects whose time to live has ended at now, each with a
// revision and a watch event of its own, and returns when the next one falls due,
// if any does. Other writes may come between two deletions.
func (w *World) Expire(now time.Time) (next time.Time, any bool) {
	for {
		next, any, more := w.expireBatch(now)
		if !more {
			return next, any
		}
	}
}

// expireBatch does the work of [World.Expire] for at most expiryBatch expiries; more
// is true if there may be others that are due.
func (w *World) expireBatch(now time.Time) (next time.Time, any, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range expiryBatch {
		if len(w.expiries) == 0 {
			return time.Time{}, false, false
		}
		first := w.expiries[0]
		live := w.liveLocked(first.key)
		current := revisionOf(live) == first.rev // else the key was written or deleted since
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
