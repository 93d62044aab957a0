// Package v1alpha1 contains the Go types of our own API group, rehearse-k8s.github.io/v1alpha1: the Scenario,
// a file that describes what `rehearse test` runs and checks.
//
// A Scenario is read from a file and never stored in a cluster, so it has no CustomResourceDefinition and no
// conversion. The types have no behaviour: package scenario decodes, validates and compiles them.
//
// Floor: F0 (api). It imports only apimachinery.
package v1alpha1
