// Package job decides what is next for a batch/v1 Job: Plan gets the Job and its pods
// as the caches show them and says which pods are made, removed or let go, and what
// the status says.
//
// # One order of decisions
//
//  0. Whether the Job is known: one with a completionMode of a later release is left alone.
//  1. Whose pods: pods that match are adopted, pods that do not are released, pods that
//     finished before they could be deleted are tracked again, and nothing else is decided in
//     that plan.
//  2. What is decided already: Complete or Failed (only leftovers are tidied up),
//     FailureTarget, SuccessCriteriaMet.
//  3. Failure: pod failure policy, backoffLimit (pods, then restarts), the deadline,
//     failed indexes.
//  4. Success: the success policy, then completions.
//  5. Bookkeeping, in three phases (below).
//  6. Pods: none is made or removed in a plan that decides the end; removals go before
//     creations.
//  7. The condition that ends the Job, once nothing is active, terminating, held or
//     uncounted.
//
// # Three phases
//
// A pod that has finished is (i) recorded in the status: its UID in
// uncountedTerminatedPods, or its index in completedIndexes; (ii) let go, its finalizer
// removed, by a plan whose Job shows that record; (iii) counted by a plan whose pods
// show that the finalizer is gone. No phase is entered in the plan of the one before.
// Upstream does all in one sync, which is how kubernetes #130103 came about: whoever sees
// the second write and not yet the first believes that the pod never ran.
//
// Counting is right for every combination of caches that only move forward, and needs
// no memory. What Past holds makes things faster or gentler (back-off, slow start,
// fewer status writes) and may be lost at any time.
//
// The package makes no requests, reads no clock and draws nothing: names of pods
// follow from the Job's UID. It is not the controller; that is in controller/jobs.
//
// Floor: F1. Imports workload, k8s.io/api and apimachinery.
package job
