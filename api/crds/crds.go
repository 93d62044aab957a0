// Package crds holds the definitions of the kinds of package v1alpha1 as an API
// server takes them: full structural schemas, in YAML.
//
// It is not the types and not an installer: whoever runs an API server applies
// what is here. A test keeps schema and Go types the same, field by field.
//
// Floor: F0 (api). It imports nothing.
package crds

import _ "embed"

//go:embed kwok.x-k8s.io_stages.yaml
var stage []byte

// StageName is the name of the definition of Stage.
const StageName = "stages.kwok.x-k8s.io"

// Stage is the definition of the kind Stage, as YAML. The caller owns the copy.
func Stage() []byte { return append([]byte(nil), stage...) }
