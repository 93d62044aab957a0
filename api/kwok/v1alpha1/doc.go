// Package v1alpha1 contains the Go types of the Stage kind of the group
// kwok.x-k8s.io/v1alpha1, written from KWOK's documented API so that stage
// files written for KWOK decode without a change.
//
// The types have no behaviour. They have every documented field, including
// those that the stage engine does not support: a file must decode strictly
// before package stage can reject it with a clear error.
//
// Floor: F0 (api). It imports only apimachinery.
//
// +kubebuilder:object:generate=true
package v1alpha1

//go:generate go tool -modfile=../../../tools/go.mod controller-gen object paths=./...
