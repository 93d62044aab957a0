// Package simulate has the command simulate: it runs the stage engine and our controllers against an existing cluster.
//
// Run first checks that the API server answers and that the user has the permissions that the engine needs (access.go),
// then runs the engine until its context ends. With leader election it watches as a standby until it holds the lease;
// after the lease is lost the process sends no write, not even one that was decided before (election.go). While the
// API server does not answer, it retries and reports that once (connection.go).
//
// It decides nothing about nodes and pods (package stage does) and starts no cluster (package cluster does).
//
// Floor: F4, a part of internal/cli.
package simulate
