// Package cli is the command line: cobra commands, streams, printers and exit codes.
//
// Data goes to stdout and everything else to stderr; an error is one line that names the flag, file or value and says
// what to do; the exit code is 0 (fine), 1 (failed), 2 (usage), 3 (nobody can tell) or 130 (interrupted), decided in one place (errors.go).
// Streams, environment, signals and the way a cluster is started are fields of app, never globals, so that a whole
// command can be run by a unit test.
//
// It decides nothing about Kubernetes: a cluster is package cluster's, kubeconfig files are package kubeconfig's, and
// what is known about running clusters is package statedir's. Nothing imports this package but cmd/rehearse.
//
// Floor: F4.
package cli
