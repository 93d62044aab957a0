// Package inspect reads objects and records of runs for the invariants of package invariant and
// its sub-packages: keys, revisions and conditions of objects, and the step at which a controller
// decided on a write.
//
// It contains no invariants: it returns facts, and its callers decide what they mean.
//
// Floor: F1. Imports history and apimachinery.
package inspect
