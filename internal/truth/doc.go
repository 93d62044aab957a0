// Package truth is what a run's world holds, as invariants see it: not what some
// controller believes. It follows the store of the run by its changes, in their order, and
// decodes an object only when somebody asks for it.
//
// It judges nothing and drives nothing: simtest and live do, each by a clock of its own.
//
// Floor: F3. Imports store, sim, invariant and history.
package truth
