// Package clonesetapi tries the API of CloneSet on the real API server: both versions, what
// is defaulted and what is refused and with which words, conversion, server-side apply,
// scale, and kubectl.
//
// No controller runs here; what one makes of a CloneSet is tried elsewhere. The package
// itself holds nothing.
//
// Floor: beside the house, tests only.
package clonesetapi
