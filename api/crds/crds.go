// Package crds holds the definitions of our kinds as an API server takes them: full
// structural schemas, in YAML, and the admission policies that say what a schema cannot.
//
// It is not the types (packages v1alpha1, apps/v1alpha1 and apps/v1beta1) and not an
// installer: whoever runs an API server applies what is here. A test keeps schema and Go
// types the same, field by field.
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

// The Service, in this namespace, that the definition of CloneSet names for conversions.
// It need not exist where the API server itself knows who answers for it.
const (
	ConversionNamespace = "rehearse-system"
	ConversionService   = "rehearse-conversion"
)

// Stage is the definition of the kind Stage, as YAML. The caller owns the copy.
func Stage() []byte { return append([]byte(nil), stage...) }

// CloneSet is the definition of the kind CloneSet in both versions, as YAML. It wants
// conversions from ConversionService. The caller owns the copy.
func CloneSet() []byte { return append([]byte(nil), cloneSet...) }

// CloneSetPolicies are the ValidatingAdmissionPolicies of CloneSet and their bindings, as
// documents of YAML. The caller owns the copy.
func CloneSetPolicies() []byte { return append([]byte(nil), cloneSetPolicies...) }
