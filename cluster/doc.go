// Package cluster puts a whole Kubernetes cluster together in one process: the
// real API server (package apiserver), the real kube-scheduler, the controllers
// of the real kube-controller-manager, and our stage engine in the place of the
// kubelets (package controller).
//
// Start returns when the cluster answers and its nodes exist; Stop ends it. The
// parts speak to the API server through its in-process door, so nothing but the
// TLS socket for users is opened.
//
// It decides nothing of its own: what a Deployment does is upstream's code, what
// a simulated pod does is a stage. It is not a command: flags, kubeconfig files
// and processes belong to internal/cli. It is not for tests in virtual time
// either; simtest builds its worlds from apiserver and never imports this
// package, so that a user's test links no scheduler. Floor F4.
package cluster
