// Package v1beta1 holds CloneSet as OpenKruise's newer version has it
// (apps.kruise.io/v1beta1): the strategy of updates is RollingUpdate or OnDelete, and what
// belongs to RollingUpdate is in a block of its own.
//
// Status and whatever else is the same in both versions is v1alpha1's type under another
// name. It is not what an API server takes (package crds), and does not convert (package
// conversion). Nothing of ours works on this version; it is for its users' sake.
//
// Floor: F0 (api). Imports k8s.io/api and apimachinery only.
//
// +kubebuilder:object:generate=true
package v1beta1
