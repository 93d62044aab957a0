// Package job provides the invariants of a controller of batch/v1 Jobs: what must hold of one Job
// and its pods at every moment of a run, and what must hold once the run is quiescent.
//
// It checks what a controller writes, and works for any controller: this repository's, the upstream one or
// that of a user. It does not plan, and it shares no code with the planner in internal/workload/job, so that
// an error in one does not hide an error in the other.
//
// Floor: F1. Imports invariant, history and apimachinery.
package job
