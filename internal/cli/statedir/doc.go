// Package statedir keeps what is known about each cluster on this machine: one directory per name.
//
// A directory holds state.json (who runs it and where), kubeconfig, rehearse.log, the certificates, and a lock that
// the cluster's process holds (flock) as long as it lives. The lock is the truth about life and death: the kernel
// drops it even on kill -9, so a directory without a holder is stale, whatever its state.json says. The
// process ID is only ever used to send a signal, and only together with the process's start time.
//
// It does not know Kubernetes, and it starts and stops nothing.
//
// Floor: F4, a part of internal/cli.
package statedir
