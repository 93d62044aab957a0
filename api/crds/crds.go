// Package crds contains the CustomResourceDefinitions of our kinds, in YAML with full structural schemas, and
// the admission policies for rules that a schema cannot express.
//
// It does not contain the Go types (packages kwok/v1alpha1, kruise/v1alpha1 and kruise/v1beta1), and it
// installs nothing: the operator of an API server applies these objects. A test compares the schemas with the
// Go types, field by field.
//
// Floor: F0 (api). It imports nothing.
package crds

import "embed"

//go:embed kwok.x-k8s.io_stages.yaml
var stage []byte

//go:embed apps.kruise.io_clonesets.yaml
var cloneSet []byte

//go:embed clonesets.policies.yaml
var cloneSetPolicies []byte

//go:embed kwok.x-k8s.io_*.yaml
var kwok embed.FS

// usagePlurals are the plurals of the kinds of Usage.
var usagePlurals = []string{"resourceusages", "clusterresourceusages", "metrics"}

// kubeletPlurals are the plurals of the kinds of Kubelet.
var kubeletPlurals = []string{
	"logs", "clusterlogs", "attaches", "clusterattaches", "execs", "clusterexecs", "portforwards", "clusterportforwards",
}

// Names of the definitions.
const (
	StageName    = "stages.kwok.x-k8s.io"
	CloneSetName = "clonesets.apps.kruise.io"
)

// The Service, in this namespace, to which the definition of CloneSet sends conversions. The Service need not
// exist if the API server itself has a handler for it.
const (
	ConversionNamespace = "rehearse-system"
	ConversionService   = "rehearse-conversion"
)

// Stage returns the definition of the kind Stage, as YAML. The caller owns the copy.
func Stage() []byte { return append([]byte(nil), stage...) }

// CloneSet returns the definition of the kind CloneSet in both versions, as YAML. It sends conversions to
// ConversionService. The caller owns the copy.
func CloneSet() []byte { return append([]byte(nil), cloneSet...) }

// CloneSetPolicies returns the ValidatingAdmissionPolicies of CloneSet and their bindings, as YAML documents.
// The caller owns the copy.
func CloneSetPolicies() []byte { return append([]byte(nil), cloneSetPolicies...) }

// Kubelet returns the definitions of the kinds that configure kubelet endpoints (Logs, Attach, Exec, PortForward, and their
// Cluster kinds), each as YAML. The caller owns the copies.
func Kubelet() [][]byte { return read(kubeletPlurals) }

// Usage returns the definitions of the kinds that define the resource usage of simulated pods (ResourceUsage and
// ClusterResourceUsage) and the metrics of simulated nodes (Metric), each as YAML. The caller owns the copies.
func Usage() [][]byte { return read(usagePlurals) }

// read returns the definitions with the given plurals.
func read(plurals []string) [][]byte {
	var all [][]byte
	for _, plural := range plurals {
		data, err := kwok.ReadFile("kwok.x-k8s.io_" + plural + ".yaml")
		if err != nil {
			panic(err) // the files are part of the program
		}
		all = append(all, data)
	}
	return all
}
