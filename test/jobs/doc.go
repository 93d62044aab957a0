// Package jobs tests controllers of batch/v1 Jobs: the same scenarios for upstream's controller, for a naive
// one, and for this repository's.
//
// [Races] are seven known ways to mislead a controller with late events, lost answers and restarts, each a
// small scenario in which only that can go wrong, at every place and for several durations. [Draw] creates
// Jobs of a family: random valid specs, with the behaviour of their pods and the changes of their user. A
// scenario takes the controller as a constructor and checks only the invariants of invariant/job.
//
//	for _, r := range jobs.Races() {
//		if f := r.Play(t, mine.Run).Failure; f != nil { … }
//	}
//	jobs.Rehearse(t, mine.Run, jobs.Draws(1, 100), 200)
//
// [Kubelet] simulates the pods. It is smaller than the stage engine: it needs no scheduler, and a keyed draw
// decides what each pod does, so that a run takes few steps.
package jobs
