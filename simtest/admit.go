package simtest

import (
	"cmp"
	"context"
	"slices"
)

// waiter is a goroutine of the run that waits until every other goroutine is blocked.
type waiter struct {
	key  string
	wake chan struct{}
}

// oneByOne waits until every other goroutine of the run is blocked. Of the goroutines that wait
// here, the one with the lowest key continues first. Code that starts several goroutines at once
// calls it: otherwise the numbers that they draw from math/rand, and so their retries, depend on
// the order in which Go's scheduler runs them, which no seed determines (a build with the race
// detector even randomizes it).
func (w *World) oneByOne(ctx context.Context, key string) {
	select {
	case <-w.addWaiter(key):
	case <-ctx.Done():
	case <-w.ctx.Done():
	}
}

// addWaiter adds a goroutine to those that wait, and returns the channel that wakes it.
func (w *World) addWaiter(key string) (wake chan struct{}) {
	wake = make(chan struct{})
	w.mu.Lock()
	w.waiters = append(w.waiters, waiter{key: key, wake: wake})
	w.mu.Unlock()
	w.poke()
	return wake
}

// hasWaiters reports whether a goroutine waits in oneByOne or afterOthers.
func (w *World) hasWaiters() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waiters) > 0
}

// afterOthers waits until every other goroutine of the run is blocked. A request whose context has ended calls it before it
// returns: when a controller is terminated, its work queue is then shut down before its workers use it again. controller-runtime's
// priority queue (v0.24.1, handleReadyItems) can otherwise block for ever while it holds its lock: it hands an item out to a
// worker that has already left.
func (w *World) afterOthers(key string) {
	select {
	case <-w.addWaiter(key):
	case <-w.released:
	}
}

// admit lets the waiters continue one after another, and seeds math/rand for each. It records no
// step, because no request reaches the API.
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
