// Package scenario reads the file that says what is rehearsed by `rehearse test`,
// checks all of it, and compiles it: objects out of files, steps, invariants of the
// world, faults and budgets, with every default filled in.
//
// Whatever can be found wrong without a cluster is rejected here, each error
// with file, line and field. The package runs nothing: no clock, no client, no
// process, and the caller passes the function that reads files. The caller checks the
// names of controllers, see [Scenario.Problem].
//
// It stands on floor 1, above fault and invariant, of which scenarios are made.
package scenario
