// Package v1beta1 contains OpenKruise's newer version of CloneSet (apps.kruise.io/v1beta1): the
// update strategy is RollingUpdate or OnDelete, and the settings of RollingUpdate are in the field
// rollingUpdate.
//
// The status and the other types that are equal in both versions are aliases of v1alpha1's. The
// CustomResourceDefinition is in package crds, the conversion in package conversion. Our controller
// uses v1alpha1; this version is for users.
//
// Floor: F0 (api). Imports k8s.io/api and apimachinery only.
//
// +kubebuilder:object:generate=true
package v1beta1
