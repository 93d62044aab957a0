// Package clonesets rehearses controllers of CloneSets: stories of pods that are made,
// updated in place or anew, held by hooks and deleted, under late events, lost answers,
// conflicts and restarts.
//
// [Races] are known ways to be fooled, each as one small story in which only that may go
// wrong. [Draw] makes CloneSets of a family: random specs, with what pods and hooks do and
// what the user changes in the middle. Both take the controller as a constructor and ask
// only for what invariant/cloneset checks.
//
// Pods are played by [Kubelet], smaller than the stage engine and with more to choose
// from: how long a container takes to begin, which of them never become ready, how long a
// deleted pod takes to go. It also binds pods, so that a story needs neither nodes nor a
// scheduler:
//
//	w.Controller("cloneset", mine.Run)
//	w.Controller("kubelet", clonesets.Kubelet(nil))
//
// What it owes a controller is what a kubelet owes it: a pod is Ready when its containers
// and all its readiness gates are, and gates are for others to set; a container whose
// image has changed is restarted with it. It may be late to notice a change and to write a
// status, and its containers may crash meanwhile and be restarted from the spec that it knows.
// Like a real kubelet it patches what differs of the status, by UID and without a
// resourceVersion, so it never waits for a version that others have written.
package clonesets
