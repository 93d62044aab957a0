// Package cluster runs a whole Kubernetes cluster in one process: the real API server (package apiserver), the real
// kube-scheduler, the controllers of the real kube-controller-manager, and our stage engine instead of kubelets (package
// stages). A test can use it instead of envtest.
//
// Start returns when the cluster answers and its nodes exist; Stop stops it. The parts use the in-process transport of the
// API server; the only socket is the TLS listener for users.
//
// It decides nothing: upstream code decides what a Deployment does, and stages decide what a simulated pod does. It is not a command: flags, kubeconfig files
// and processes belong to internal/cli. It is not for tests in virtual time either: simtest uses
// apiserver and never imports this package, so that a user's test does not link the scheduler.
//
// Floor: F4.
package cluster
