// Package conversion turns a CloneSet of one version into the other, both ways, and loses
// nothing: what the other version has no word for is kept in an annotation, and comes back
// unless somebody has said otherwise in the meantime.
//
// It works on objects as JSON has them and moves values without reading them, so that a
// pod template with fields that this build does not know stays what it is. That is what
// the API server needs, whose answer of a conversion is what gets stored. For Go types
// there are ToV1alpha1 and ToV1beta1.
//
// Where the versions differ, and what is kept where, is in docs/reference/cloneset-api.md.
// It is not a webhook (package controller/webhook serves one), it sets no defaults and
// refuses nothing that has the right form.
//
// Floor: F0 (api). Imports apimachinery and the types.
package conversion
