// Package stage decides what a Stage (kwok.x-k8s.io/v1alpha1) does to an object: which stage is next, when it is
// due, and what it writes then.
//
// Load reads stages from YAML, Compile checks them and returns a Set. Decide chooses the next stage of an object,
// Play computes its writes. Life and Tree play a whole lifecycle in virtual time, Explain says why a stage does not
// match.
//
// It is pure: Decide and Play read nothing but their arguments. The same (seed, object, past) gives the same
// decision on every machine, so a run can be replayed.
//
// It is not the engine: it sends nothing, keeps no table of objects and waits for nothing. Package
// internal/controller/stages does.
//
// Every field of the Stage API is supported, for every kind of object. Pods and nodes come as Go structs, all
// others as unstructured objects. A field that has no effect next to another one is a warning of the Set, anything
// malformed an *Error with file, line, stage and field; CompileGood and LoadGood continue with the other stages.
//
// Sub-packages: expr evaluates jq and CEL, render renders templates, kubelet computes the status of simulated
// pods, lint checks files of stages.
//
// Floor: F1, pure. Imports its sub-packages, api/kwok, k8s.io/api and apimachinery.
package stage
