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
// What is played today: v1 Node and v1 Pod; labels, annotations and jq
// requirements; weights; delays; events, finalizers, status patches and
// deletes. A stage that asks for more (CEL, weightFrom, apply, impersonation,
// patches of other subresources) is refused by Load and Compile with an error
// that names file, stage and field. Nothing is ever silently left out.
//
// Floor: F1. Imports api/v1alpha1, k8s.io/api and apimachinery, gojq, sprig.
package stage
