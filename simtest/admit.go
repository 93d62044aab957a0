package simtest

import (
	"cmp"
	"context"
	"slices"
)

// waiter is a goroutine of the run that waits to go on alone.
type waiter struct {
	key  string
	wake chan struct{}
}

// oneByOne waits until nothing else of the run goes on; of all that wait, the one with the least
// key goes first. Whatever starts goroutines of its own at a moment when others are awake
// needs it: what they draw from math/rand, and so when they try again, would otherwise follow the
// order in which Go's scheduler takes them, which no seed decides (a build with the
// race detector even makes it random).
func (w *World) oneByOne(ctx context.Context, key string) {
	t := waiter{key: key, wake: make(chan struct{})}
	w.mu.Lock()
	w.waiters = append(w.waiters, t)
	w.mu.Unlock()
	w.poke()
	select {
	case <-t.wake:
	case <-ctx.Done():
	case <-w.ctx.Done():
	}
}

// admit lets all go on that wait so, one at a time. It draws anew for each,
// and is no step: nothing reaches the API by it.
func (w *World) admit() {
	for {
		w.mu.Lock()
		if len(w.waiters) == 0 {
			w.mu.Unlock()
			return
		}
		slices.SortStableFunc(w.waiters, func(a, b waiter) int { return cmp.Compare(a.key, b.key) })
		t := w.waiters[0]
		w.waiters = w.waiters[1:]
		w.mu.Unlock()
		w.reseed(t.key)
		close(t.wake)
		w.waitBlocked()
	}
}
