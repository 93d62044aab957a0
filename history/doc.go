// Package history is the record of one run: a header and a list of steps, each
// with its causes and a running hash.
//
// Everything that happens in a run is a step here, and invariants, replay, shrinking and reports read
// nothing else. The package does not know how a run is played (virtual time or real processes), which
// faults there are (package fault) or what must hold (package invariant).
//
// Floor: F0. Imports none of our packages.
package history
