// Package render parses the templates of stages and renders them for one object.
//
// A template is Go's text/template with the functions of sprig and of KWOK, and it renders YAML. Render returns
// the JSON value of that YAML. Functions that read more than their arguments read the Moment of the rendering:
// its time, its Facts and its Chance, so that a rendering can be repeated. Functions that read the environment
// or the network, or that create secrets, are unsupported; Parse says which and why.
//
// What one rendering may cost is bounded: loops, texts and lists count, time does not.
//
// It is not the part that applies a patch: package stage does that with what Render returns.
//
// Floor: F1, pure. Imports stage/expr, stage/kubelet, sprig, k8s.io/api and apimachinery.
package render
