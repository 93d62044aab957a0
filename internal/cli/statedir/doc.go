// Package statedir manages the state directories of the clusters on this machine: one directory per name.
//
// A directory holds state.json (who runs it and where), kubeconfig, rehearse.log, the certificates, and a lock that
// the cluster's process holds (flock) while it runs. The lock decides whether the cluster is running: the kernel
// releases it even on kill -9, so a directory without a lock holder is stale, whatever its state.json contains. The
// process ID is only used to send a signal, and only together with the process's start time.
//
// The files of stopped clusters are in a directory of their own, so that a name is either that of a running cluster, that of
// a stopped one, or free.
//
// It does not know Kubernetes, and it starts and stops nothing.
//
// Floor: F4, a part of internal/cli.
package statedir
