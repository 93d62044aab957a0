// Package scenario reads the file that says what is rehearsed by `rehearse test`,
// checks all of it, and compiles it: objects out of files, steps, promises about the
// world, faults and budgets, with every default filled in.
//
// Whatever can be known to be wrong without a cluster is refused here, each error
// with file, line and field. The package plays nothing: no clock, no client, no
// process, and files are read by a function that the caller gives. Names of
// controllers are the caller's to judge, see [Scenario.Problem].
//
// It stands on floor 1, above fault and invariant, of which scenarios are made.
package scenario
