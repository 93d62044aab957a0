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

// Expire deletes the objects whose time to live has ended at now, each with a
// revision and a watch event of its own, and returns when the next one falls due,
// if any does.
func (w *World) Expire(now time.Time) (next time.Time, any bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		first, any := w.firstExpiry()
		if !any || first.due.After(now) {
			return first.due, any
		}
		heap.Pop(&w.expiries)
		w.append(first.key, w.liveLocked(first.key), nil, now)
	}
}

// firstExpiry returns the next expiry that still means something, and drops those
// before it whose key was written or deleted meanwhile.
func (w *World) firstExpiry() (expiry, bool) {
	for len(w.expiries) > 0 {
		if first := w.expiries[0]; revisionOf(w.liveLocked(first.key)) == first.rev {
			return first, true
		}
		heap.Pop(&w.expiries)
	}
	return expiry{}, false
}
