// Package invariant provides what must hold in a run: invariants about the objects at one moment (a number of
// pods, a condition, no orphans), oracles that need no specification because they read only the record of the
// run (hot loops, writes decided on a view older than the writer's own last write), and invariants written in
// CEL.
//
// An [Invariant] is a name and a pure function of a [View]. The caller decides whether it must hold always,
// eventually or sometimes: see simtest.World and the Scenario kind. The invariants of Job and CloneSet
// controllers are in packages invariant/job and invariant/cloneset.
//
// The package runs nothing and does not access an API server. Floor: F1. Imports history, cel-go and
// apimachinery; no clock, no client, no goroutine.
package invariant
