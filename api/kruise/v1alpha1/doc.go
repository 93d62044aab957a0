// Package v1alpha1 contains the stored version of CloneSet (apps.kruise.io/v1alpha1). YAML that was
// written for OpenKruise is valid, unchanged.
//
// The CustomResourceDefinition is in package crds, the other version in package v1beta1, and the
// conversion between the two in package conversion.
//
// Floor: F0 (api). Imports k8s.io/api and apimachinery only.
//
// +kubebuilder:object:generate=true
package v1alpha1
