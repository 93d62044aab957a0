// Package conversion converts a CloneSet between its two versions without loss: an annotation preserves the
// values that the other version cannot express, and the conversion back restores them unless a user has
// edited them meanwhile.
//
// It works on objects in JSON form and moves values without reading them, so that a pod template keeps fields
// that are unknown to this version. The API server needs that, because it stores the result of a conversion.
// ToV1beta1 and ToV1alpha1 convert Go types.
//
// docs/reference/cloneset-api.md lists the differences between the versions, and where each value is
// preserved. The package is not a webhook (package controller/webhook serves one), sets no defaults, and
// rejects no object of the right form.
//
// Floor: F0 (api). Imports apimachinery and the types.
package conversion
