// Package kruise holds what both versions of CloneSet share: the labels, annotations and
// conditions that are OpenKruise's contract with dashboards and operators, and the
// parts of the spec that are the same in both.
//
// The kinds themselves are in packages v1alpha1 (the stored version) and v1beta1; their
// definitions for an API server in package crds. Names and meaning are OpenKruise's
// (apis/apps/pub, apis/apps/v1alpha1); https://openkruise.io/docs has their description.
//
// Floor: F0 (api). Imports k8s.io/api and apimachinery only.
//
// +kubebuilder:object:generate=true
package kruise

//go:generate go tool -modfile=../../tools/go.mod controller-gen object paths=./...
