// Package clonesetapi tests the API of CloneSet on the real API server: both versions, defaults, what is
// rejected and with which messages, conversion, server-side apply, scale, and kubectl.
//
// No controller runs here: other packages test what a controller does with a CloneSet. The package itself
// exports nothing.
//
// Floor: outside, tests only.
package clonesetapi
