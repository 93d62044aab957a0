// Package cluster has the commands that start, stop, list and use clusters: up, down, stop, start, list, get, logs and kubectl.
//
// A session is one cluster from the claim of its name to the removal of its files: state directory, log, kubeconfig
// entries. up runs it in the foreground; with --detach it starts this program again in the background and waits until the
// cluster is healthy. down and list also remove what a killed cluster left. kubectl is the real one, directed to a
// rehearse cluster through its environment. stop keeps the configuration of a cluster with a data directory, and start gives it
// to up.
//
// It decides nothing about Kubernetes: the public package cluster runs a cluster, and packages kubeconfig and statedir
// own the files.
//
// Floor: F4, a part of internal/cli.
package cluster
