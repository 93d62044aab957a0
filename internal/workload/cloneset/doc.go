// Package cloneset plans for CloneSets (apps.kruise.io): Plan gets the set, its pods, claims and
// revisions as the caches show them, and returns what is written.
//
// # The order of decisions
//
//  1. Ownership: pods that match are adopted, pods that do not are released. If there are any, that
//     is the whole plan.
//  2. The revision of the template. If it does not exist, the plan creates it; until a plan observes
//     it, no pod is created, updated or deleted.
//  3. The steps of the table steps, in its order: deletions precede creations, and updates get what
//     is left of the budgets. No step waits for another.
//
// A plan does at most one thing to a pod, and makes an available pod unavailable only while replicas
// minus maxUnavailable others are available.
//
// # What a plan reads
//
// Pod, which View computes from an object, contains everything that a plan can read of a pod. The
// controller is woken exactly when that changes, so no relevant event can be filtered away.
//
// The package sends no requests, reads no clock and uses no random numbers: names of pods and
// revisions are derived from the set's UID and the template. It is not the controller, which is in
// internal/controller/clonesets.
//
// Floor: F1. Imports workload, api/kruise, k8s.io/api and apimachinery.
package cloneset
