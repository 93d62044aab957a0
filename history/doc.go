// Package history is the record of one run: a header and a list of steps, each
// with its causes and a running hash.
//
// Everything that happens in a run is a step here, and checkers, replay,
// shrinking and reports read nothing else. The package knows nothing of how a
// run is made (virtual time or live processes), what may go wrong in it (package
// fault) or what must hold (package invariant).
package history
