// Package cloneset decides what is next for a CloneSet (apps.kruise.io): Plan gets the
// set, its pods, claims and revisions as the caches show them, and says what is written.
//
// # One order of decisions
//
//  1. Whose pods: pods that match are adopted, pods that do not are let go, and nothing
//     else is decided in that plan.
//  2. The revision of the template. One that has to be made is seen by the next plan;
//     until then no pod is made, updated or deleted.
//  3. How far the pods are from what is wanted (differ).
//  4. What each pod's own life asks for (the table transitions).
//  5. Deletions: of what was taken back, what has finished, what its hook let go, what was
//     asked for, what is too many; then creations. None of them waits for another.
//  6. Updates, in place or anew, with what of the budget deletions have left.
//  7. The status.
//
// At most one thing is done to a pod in one plan, and a pod that is available is only
// taken out of service while replicas less maxUnavailable others are.
//
// # What a plan reads
//
// All that a plan can see of a pod is Pod, made by View; so the controller wakes up
// exactly when that changes, and no event that matters can be filtered away.
//
// The package makes no requests, reads no clock and draws nothing: names of pods and
// revisions follow from the set's UID and the template. It is not the controller; that
// is in controller/clonesets.
//
// Floor: F1. Imports workload, api/apps, k8s.io/api and apimachinery.
package cloneset
