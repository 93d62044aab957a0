// Package store keeps revisioned objects in memory with etcd's semantics and
// shows them to the real API server as a k8s.io/apiserver storage.Interface.
//
// What it is: one ordered key space per world, in which every write creates a new
// revision and keeps the version it replaces, so that reads at a revision, pages
// of a list and resumed watches answer exactly until that history is compacted.
// A [World] is one such revision space; [Worlds] is all of them in a process. The
// world of the process itself has the empty name and compacts itself in the background; the world of a test run is reached
// through its context ([WithRun]), and its owner compacts it, without a goroutine or a timer.
//
// What it is not: it is not durable, not distributed, and not an etcd server. The raw
// methods ([World.RawGet] and others) serve the places of the API server that access etcd as a key-value store; there are no
// leases, no multi-key transactions and no users.
//
// Objects are shared. A version is decoded once, when it is written, and that one
// object is read by every Get, List and watch; a reader gets a shallow copy and must
// not modify the data behind a pointer, a map or a slice. This is the contract of upstream's watch cache. Callers that may
// modify an object (the input of an update, the answer to a write) get a deep copy.
//
// The floor is F2: this package imports k8s.io/apimachinery and the storage
// packages of k8s.io/apiserver, and no other package of this module. It opens no
// connection and writes no log. Two of upstream's packages bring client-go and the
// etcd client into the build although nothing here uses them: util/flowcontrol
// (the signal that a watch has begun) and storage/feature (the switch for
// consistent reads).
package store
