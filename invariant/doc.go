// Package invariant says what must hold in a run: promises about the world at one
// moment (so many pods, this condition, nothing orphaned), oracles that need no
// specification because they read the record of the run (hot loops, writes decided
// on a view older than the writer's own last write), and the same in CEL.
//
// An [Invariant] is a sentence and a pure function of a [View]; whether it must
// hold always, eventually or sometimes is for whoever runs the world to say. The
// package makes no runs and knows no API server. It stands on floor 1: no clock, no
// client, no goroutine.
package invariant
