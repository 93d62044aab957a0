// Package clonesets rehearses controllers of CloneSets: stories of pods that are made,
// updated in place or anew, held by hooks and deleted, under late events, lost answers,
// conflicts and restarts.
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
// image has changed begins anew, and no other does.
package clonesets
