// Package v1alpha1 holds the Go types of the Stage kind of the group
// kwok.x-k8s.io/v1alpha1, written from KWOK's documented API so that stage
// files written for KWOK decode here without a change.
//
// It is not an engine and holds no behaviour: every documented field is here,
// also those the engine of this project does not play yet, because a file must
// decode strictly before it can be refused with a good sentence. What is
// supported is decided by package stage.
//
// Floor: F0 (api). It imports apimachinery and nothing else.
//
// +kubebuilder:object:generate=true
package v1alpha1

//go:generate go tool -modfile=../../../tools/go.mod controller-gen object paths=./...
