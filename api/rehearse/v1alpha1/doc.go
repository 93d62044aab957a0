// Package v1alpha1 contains the Go types of our own API group, rehearse-k8s.github.io/v1alpha1: the Scenario,
// a file that describes what `rehearse test` runs and checks, and the Cluster, a file that describes what `rehearse up` starts.
//
// They are read from files and never stored in a cluster, so they have no CustomResourceDefinition and no
// conversion. The types have no behaviour: package scenario decodes, validates and compiles a Scenario, and
// the command line sets flags from a Cluster.
//
// Floor: F0 (api). It imports only apimachinery.
package v1alpha1
