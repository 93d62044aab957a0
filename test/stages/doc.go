// Package stages searches stage engines: random sets of stages, run on pods that users and other controllers
// change meanwhile, with an API that rejects some of the requests.
//
// [Draw] creates the cases. In each, a pod goes from rank 0 to a last rank, and every rank has one sound
// stage. Others compete with it: stages of several requests, some of which the API rejects; stages that would
// change nothing; stages whose delay cannot be parsed; stages that exceed their budget; stages that undo one
// another. Users label pods, move them on, delete them and create them again; another writer patches their
// status late and without a resourceVersion.
//
// A [Case] takes an engine as a constructor. The invariants are: the rank of a pod never decreases; a pod
// reaches the last rank, or is removed after its deletion; no pod is written more often than the budget of the
// engine allows.
package stages
