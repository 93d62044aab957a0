// Package kruise contains what both versions of CloneSet have in common: the labels, annotations and
// conditions on which dashboards and operators rely, and the parts of the spec that are equal in
// both versions.
//
// The kinds themselves are in packages v1alpha1 (the stored version) and v1beta1, and their
// CustomResourceDefinitions in package crds. Names and meaning are OpenKruise's (apis/apps/pub,
// apis/apps/v1alpha1); https://openkruise.io/docs describes them.
//
// Floor: F0 (api). Imports k8s.io/api and apimachinery only.
//
// +kubebuilder:object:generate=true
package kruise

//go:generate go tool -modfile=../../tools/go.mod controller-gen object paths=./...
