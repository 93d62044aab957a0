// Command reference runs what rehearse is measured against: kube-apiserver, etcd without fsync, and KWOK's controller, each
// in a process of its own, from their own modules; with --controllers also kube-controller-manager and kube-scheduler, as in a
// cluster of kwokctl. Its command up has the flags of `rehearse up` that package bench uses, so
// that `go run ./bench compare` measures both with one client and prints ratios, which hold on any machine.
//
// It is a module of its own, because rehearse itself needs neither KWOK nor a whole kube-apiserver. It is not a tool to
// run clusters: one user with all permissions, and everything is lost at the end.
package main
