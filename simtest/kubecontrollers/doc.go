// Package kubecontrollers has controllers of kube-controller-manager as constructors
// for simtest: a test asks for those that its own controller relies on.
//
//	w.Controller("gc", kubecontrollers.GarbageCollectorOf("deployments.apps", "replicasets.apps", "pods"))
//	w.Controller("replicaset", kubecontrollers.ReplicaSet)
//
// Each runs upstream's code with one worker and informers of its own. Their Events go
// nowhere: each would be a step, and nothing in a world reads them.
package kubecontrollers
