// Package webhook is the conversion webhook of CloneSets: it answers a ConversionReview of
// apiextensions.k8s.io/v1 with the objects in the requested version.
//
// It keeps no state, so any number of instances may run. It opens no listener: package apiserver
// passes requests to Handler without a socket.
//
// It is not the conversion itself (package api/kruise/conversion), and not an admission webhook.
//
// Floor: F3. Imports the API types and upstream's review types.
package webhook
