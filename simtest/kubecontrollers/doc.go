// Package kubecontrollers provides controllers of kube-controller-manager as constructors for
// simtest: a test starts those that its own controller relies on.
//
//	w.Controller("gc", kubecontrollers.GarbageCollectorOf("deployments.apps", "replicasets.apps", "pods"))
//	w.Controller("replicaset", kubecontrollers.ReplicaSet)
//
// Each runs upstream's code with one worker and its own informers. Their Events are not sent to the
// API: each would be a step, and no client in a world reads them.
package kubecontrollers
