// Package stage decides what a Stage (kwok.x-k8s.io/v1alpha1) does to an
// object: which stage is next, when it is due, and what it then writes.
//
// It is pure. Decide and Play read nothing but their arguments: no client, no
// context, no logger, no clock, no goroutine and no global randomness. The same
// (seed, object, past) gives the same decision on every machine, so a run can
// be replayed. Everything is compiled when stages are loaded: a selector on one
// of the usual fields becomes a closure on the typed object, any other jq
// program runs on its JSON, and both give the same answer.
//
// It is not the engine: it sends nothing, keeps no table of objects and waits
// for nothing. Package controller does.
//
// The whole Stage API is played, for every kind of object; pods and nodes come as
// Go structs, all others as unstructured objects. A field that means nothing
// beside another one is a warning of the set, anything malformed an *Error with
// file, line, stage and field; CompileGood and LoadGood go on with the other
// stages. Nothing is ever silently left out.
//
// Expressions and templates are written by users and read objects of other
// users, so their work is bounded, and one that fails concerns its own stage on
// that object only.
//
// Floor: F1. Imports api/v1alpha1, k8s.io/api and apimachinery, gojq, cel-go, sprig.
package stage
