// Package verdict decides what a run means: whether it is quiescent, whether it livelocks, which invariants
// are violated at its end, whether it ends in the same state as the runs without faults, which writes were
// decided on a stale view, which steps led to a failure, and how a failure is summarized.
//
// simtest (virtual time) and internal/rehearsal (real processes) share these rules. They own the clock, the
// store and the goroutines; this package takes data (a history.Run, the bytes of objects, times) and returns
// values. It starts no goroutine, reads no clock and does no I/O.
//
// It does not search: package sim, which imports this one, chooses plans, shrinks and replays. It does not
// draw: package report does.
//
// Floor: F2. Imports history, fault and invariant.
package verdict
