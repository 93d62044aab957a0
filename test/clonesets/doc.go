// Package clonesets tests controllers of CloneSets: scenarios of pods that are created, updated in place or
// recreated, blocked by hooks and deleted, under late events, lost answers, conflicts and restarts.
//
// [Races] are known ways to mislead a controller, each a small scenario in which only that can go wrong.
// [Draw] creates CloneSets of a family: random specs, with the behaviour of pods and hooks and the changes
// that the user makes meanwhile. Both take the controller as a constructor and check only the invariants of
// invariant/cloneset.
//
// [Kubelet] simulates the pods. It is smaller than the stage engine and has more options: how long a container
// takes to start, which containers never become ready, how long a deleted pod takes to terminate. It also
// binds pods, so that a scenario needs neither nodes nor a scheduler:
//
//	w.Controller("cloneset", mine.Run)
//	w.Controller("kubelet", clonesets.Kubelet(nil))
//
// It behaves towards a controller as a kubelet does: a pod is Ready when its containers and all its readiness
// gates are, and other clients set the gates; a container whose image has changed is restarted with it. It may
// notice a change late and write a status late, and its containers may crash meanwhile and be restarted from
// the spec that it knows. Like a real kubelet it patches the difference of the status, by UID and without a
// resourceVersion, so it never waits for a version that others have written.
package clonesets
