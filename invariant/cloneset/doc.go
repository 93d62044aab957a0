// Package cloneset provides the invariants of a controller of CloneSets (apps.kruise.io): what
// must hold of one CloneSet, its pods, claims and revisions at every moment of a run, and what
// must hold once the run is quiescent.
//
// It checks what a controller writes, and works for any controller: this repository's, Kruise's or that of a
// user. It does not plan, and it shares no code with the planner in internal/workload/cloneset, so that an
// error in one does not hide an error in the other.
//
// Floor: F1. Imports invariant, history, api/kruise, k8s.io/api and apimachinery.
package cloneset
