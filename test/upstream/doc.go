// Package upstream holds what was found in Kubernetes' own controllers from outside, by
// `rehearse test`: the failed runs, each with the nearest one that held, in testdata. Its
// test checks that docs/reference/upstream-controllers.md says of them what they show.
package upstream
