// Package cli is the command line: the root command, help topics and Main.
//
// Each family of commands has its package: cluster (up, down, list, kubectl), scale, simulate, stage (lint, explain, play)
// and test (test, replay, report). Package console has what they share: streams, output formats, logs, errors, exit codes
// and signals; package target finds the cluster that a command line means. Packages kubeconfig and statedir own the files
// of a user's machine. The scripts in testdata test the whole command line with real processes.
//
// It decides nothing about Kubernetes; the public packages do. Nothing imports this package but cmd/rehearse.
//
// Floor: F4.
package cli
