// Package expr compiles the jq programs and CEL expressions of stages and evaluates them on one object.
//
// A jq program that is a plain path runs as field access on the Go struct, or on the maps of an unstructured
// object, without JSON; programs of the built-in stages have Go functions (RegisterTime, RegisterTexts). All
// others run in gojq, on the JSON form of the object. Every way gives the same answer; tests compare them.
//
// Programs come from users and read objects of other users, so their work is bounded. The bound counts steps and
// sizes, never time: the answer is the same on every machine. The time and the random numbers that a program
// reads are those of its View.
//
// It is not the language of templates, which is package render, and it knows nothing of stages.
//
// Floor: F1, pure. Imports gojq, cel-go, k8s.io/api and apimachinery.
package expr
