// Package v1alpha1 holds CloneSet as it is stored (apps.kruise.io/v1alpha1). YAML that was
// written for OpenKruise is valid here, unchanged.
//
// It is not the definition that an API server takes (package crds) nor its conversion
// to v1beta1 (package v1beta1).
//
// Floor: F0 (api). Imports k8s.io/api and apimachinery only.
//
// +kubebuilder:object:generate=true
package v1alpha1
