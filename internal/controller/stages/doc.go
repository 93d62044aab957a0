// Package stages is the stage engine: the controller that runs package stage against an API. It watches
// nodes, pods and the other kinds that stages select, asks package stage which stage is next and when,
// and writes the changes with preconditions. It also renews the leases of simulated nodes and assigns
// IP addresses.
//
// The state of all objects is in one table under one lock, keyed by UID; due times are in one heap that
// has each key at most once. When a stage is due, the decision is made again on the newest version of
// the object, and the stage runs only if it is still the chosen one. Each write carries the UID and
// resourceVersion that the decision was made on.
//
// It is not a kubelet: no container runs, and logs, exec and port-forward are not served here. It has no
// rules about pods and nodes; those are in the stages.
//
// Floor: F3. Imports stage (F1), client-go and apimachinery.
package stages
