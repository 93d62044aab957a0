// Package store keeps revisioned objects in memory with etcd's semantics and
// shows them to the real API server as a k8s.io/apiserver storage.Interface.
//
// What it is: one ordered key space per world, in which every write makes a new
// revision and keeps the version it replaces, so that reads at a revision, pages
// of a list and resumed watches answer exactly until that history is compacted.
// A [World] is one such revision space; [Worlds] is all of them in a process. The
// world of the process itself has the empty name and looks after itself; the
// world of a test run is reached through its context ([WithRun]) and is stepped
// by its owner, without a goroutine and without a timer.
//
// What it is not: it is not durable, not distributed, and no etcd server. The raw
// doors ([World.RawGet] and its neighbours) serve the one or two places of the API
// server that speak key-value to etcd; there are no leases, no multi-key
// transactions and no users.
//
// Objects are shared. A version is decoded once, when it is written, and that one
// object is read by every Get, List and watch; a reader gets a copy of its top
// level and must not change what lies behind a pointer, a map or a slice. This is
// the contract of upstream's watch cache. Whoever may change an object (the input
// of an update, the answer to a write) gets a deep copy.
//
// The floor is F2: this package imports k8s.io/apimachinery and the storage
// packages of k8s.io/apiserver, and no other package of this module. It opens no
// connection and writes no log. Two of upstream's packages bring client-go and the
// etcd client into the build although nothing here uses them: util/flowcontrol
// (the signal that a watch has begun) and storage/feature (the switch for
// consistent reads).
package store
