// Package scale has the command scale: it creates many simulated objects from one template, and deletes surplus ones.
//
// The objects of one set are called NAME-0, NAME-1 and so on and have a label with the set's name; only objects with
// that label are deleted, with their UID as a precondition. Writes are sent in parallel and without client-side limits,
// because load on the server is intended.
//
// It is not a controller: it creates and deletes once and returns.
//
// Floor: F4, a part of internal/cli.
package scale
