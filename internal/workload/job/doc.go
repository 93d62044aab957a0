// Package job plans for batch/v1 Jobs: Plan gets the Job and its pods as the caches show them, and
// returns which pods are created, deleted or released, and the status.
//
// # The order of decisions
//
//  1. A Job that is Complete or Failed: the plan only releases or deletes its leftover pods. A Job
//     with an unknown completionMode: the plan is empty.
//  2. Ownership: pods that match are adopted, pods that do not are released, pods that finished
//     before they could be deleted are tracked again. If there are any, that is the whole plan.
//  3. Failure, if the end is not decided yet: pod failure policy, backoffLimit (pods, then
//     restarts), the deadline, failed indexes.
//  4. Success: the success policy, then completions.
//  5. Accounting, in three phases (below).
//  6. Pods: a plan that decides the end creates and deletes none; deletions precede creations.
//  7. The condition that ends the Job, once no pod is active, terminating, tracked or uncounted.
//
// # Three phases
//
// A pod that has finished is (i) recorded in the status: its UID in
// uncountedTerminatedPods, or its index in completedIndexes; (ii) released, its finalizer
// removed, by a plan whose Job shows that record; (iii) counted by a plan whose pods
// show that the finalizer is removed. A phase never starts in the plan of the phase before.
// Upstream does all three in one sync, which caused kubernetes #130103: a controller that observes
// the second write before the first concludes that the pod never ran.
//
// The counts are correct for every combination of caches that only move forward, without any
// memory. Past makes a controller faster or reduces its load (back-off, slow start, fewer status
// writes) and may be lost at any time.
//
// The package sends no requests, reads no clock and uses no random numbers: names of pods are
// derived from the Job's UID. It is not the controller, which is in internal/controller/jobs.
//
// Floor: F1. Imports workload, k8s.io/api and apimachinery.
package job
