// Package v1alpha1 holds the Go types of our own API group,
// rehearse-k8s.github.io/v1alpha1: the Scenario, a file that says what is rehearsed by
// `rehearse test`.
//
// A Scenario is read from a file and never stored in a cluster, so there is no
// definition for an API server and nothing to convert. The types hold no behaviour:
// package scenario reads, checks and compiles them.
//
// Floor: F0 (api). It imports apimachinery and nothing else.
package v1alpha1
