// Package test has the commands that test a controller under faults, and those that read recorded runs: test, replay and report.
//
// test reads scenarios, opens the API server that they run against (one of its own, or a cluster of the user's), searches
// with package sim, and prints or stores the results. replay runs a stored failure again. report draws recorded runs.
// The hidden command controller is the process that test starts for a client that is built in.
//
// It injects no fault and checks no invariant: packages rehearsal, proxy and sim do.
//
// Floor: F4, a part of internal/cli.
package test
