// Package target finds the cluster that a command line means.
//
// Commands name a cluster with --name, with REHEARSE_NAME, or not at all; then the only running cluster is meant, or the
// one called "rehearse". The package also completes names in a shell, derives the name of a cluster's kubeconfig context,
// and recognizes a client configuration that leads to a cluster that 'rehearse up' started on this machine.
//
// It reads state directories (package statedir) and changes nothing.
//
// Floor: F4, a part of internal/cli.
package target
