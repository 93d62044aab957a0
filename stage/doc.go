// Package stage computes the effects of a Stage (kwok.x-k8s.io/v1alpha1) on an object: which stage is next, when it
// is due, and what it then writes.
//
// Load reads stages from YAML, Compile checks them and returns a Set. Decide chooses the next stage of an object,
// Play computes its writes. Life and Tree simulate a whole lifecycle in virtual time, Explain reports why a stage
// does not match.
//
// It is pure: Decide and Play read only their arguments. The same seed, object and past give the same decision on
// every machine, so a run can be replayed.
//
// It is not the engine: it sends no requests, stores no objects and does not wait. Package
// internal/controller/stages does.
//
// It supports every field of the Stage API, for every kind of object. Pods and nodes are Go structs, all other
// kinds are unstructured objects. A field that another field overrides is a warning of the Set, and invalid input
// is an *Error with file, line, stage and field; CompileGood and LoadGood continue with the other stages.
//
// Sub-packages: expr evaluates jq and CEL, render renders templates, kubelet computes the status of simulated
// pods, lint checks files of stages.
//
// Floor: F1, pure. Imports its sub-packages, api/kwok, k8s.io/api and apimachinery.
package stage
