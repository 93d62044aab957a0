// Package scale makes many simulated objects from one template, and takes the surplus away again.
//
// The objects of one set are called NAME-0, NAME-1 and so on and carry a label with the set's name; only objects with
// that label are ever deleted, and only under their UID. Writes go out in parallel and without client-side limits,
// because the server at the other end is there to be loaded.
//
// It is not a controller: it makes the number right once and leaves. It prints nothing; progress is a callback.
//
// Floor: F4, a part of internal/cli.
package scale
