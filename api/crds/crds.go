// Package crds contains the CustomResourceDefinitions of our kinds, in YAML with full structural schemas, and
// the admission policies for rules that a schema cannot express.
//
// It does not contain the Go types (packages kwok/v1alpha1, kruise/v1alpha1 and kruise/v1beta1), and it
// installs nothing: the operator of an API server applies these objects. A test compares the schemas with the
// Go types, field by field.
//
// Floor: F0 (api). It imports nothing.
package crds

import _ "embed"

//go:embed kwok.x-k8s.io_stages.yaml
var stage []byte

//go:embed apps.kruise.io_clonesets.yaml
var cloneSet []byte

//go:embed clonesets.policies.yaml
var cloneSetPolicies []byte

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
