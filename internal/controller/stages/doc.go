// Package stages is the shell around the pure planners of this project: it
// watches, asks a planner what is next, and writes that with preconditions.
//
// StageEngine is the shell of package stage: it plays stages on nodes and pods,
// keeps the leases of simulated nodes and hands out addresses. Its memory is
// one table under one lock, keyed by UID; its clock is one heap in which a key
// stands at most once. A stage that falls due is decided again on the newest
// version of the object and is played only if it is still the chosen one. Every
// write carries the UID and resourceVersion it was decided on.
//
// PodFeed reads pods once for all shells, and upstream's controllers, of one process.
//
// It is not a kubelet: no container runs, and logs, exec and port-forward are
// not served here. It holds no rules about pods and nodes either; those are in
// the stages.
//
// Floor: F3. Imports stage (F1), client-go and apimachinery.
package stages
