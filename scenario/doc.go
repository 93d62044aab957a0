// Package scenario reads the Scenario file of `rehearse test`, validates it and compiles
// it: objects from files, steps, invariants, faults and budgets, with every default set.
//
// It rejects every mistake that can be found without a cluster, and each error has the
// file, line and field. The package runs nothing: it has no clock, client or process, and
// the caller passes the function that reads files. The caller also checks the names of
// controllers, which this package does not know; see [Scenario.Problem].
//
// Floor: F1. Imports fault and invariant.
package scenario
