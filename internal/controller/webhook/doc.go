// Package webhook answers an API server that asks for a CloneSet in another version: a
// ConversionReview of apiextensions.k8s.io/v1 comes in, one with the answer goes out.
//
// It knows no objects but those of the request, keeps nothing, and so any number of them
// may run. How it is reached is for others to say: package apiserver hands requests to it
// without a socket.
//
// It is not the conversion itself (package api/apps/conversion), and admits or refuses
// nothing.
//
// Floor: F3 (controller). Imports the API and upstream's review types.
package webhook
