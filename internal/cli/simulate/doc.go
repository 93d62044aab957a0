// Package simulate runs the stage engine against a cluster that exists already.
//
// Run asks first whether the API answers and whether it may do what the engine
// does (access.go), then runs the engine until its context ends. With leader
// election it stands by, watching, until it holds the lease; when the lease is
// lost no write leaves the process any more, not even one that was decided
// before (election.go). An API server that goes away is waited for, and said
// once (connection.go).
//
// It decides nothing about nodes and pods, which is package stage's, it starts
// no cluster, which is package cluster's, and it reads no flags; internal/cli
// does.
//
// Floor: F4, a part of internal/cli.
package simulate
