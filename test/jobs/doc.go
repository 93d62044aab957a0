// Package jobs rehearses controllers of batch/v1 Jobs: the same stories for upstream's
// controller, for a naive one, and for ours.
//
// [Races] are seven known ways to be fooled by late events, lost answers and restarts,
// each as one small story in which only that may go wrong, at every place and for
// several lengths of time. [Draw] makes Jobs of a family: random valid specs, with what
// their pods do and what their user changes in the middle. A story takes the
// controller as a constructor and checks only the invariants
// that invariant/job states.
//
//	for _, r := range jobs.Races() {
//		if f := r.Play(t, mine.Run).Failure; f != nil { … }
//	}
//	jobs.Rehearse(t, mine.Run, jobs.Draws(1, 100), 200)
//
// Pods are played by [Kubelet], smaller than the stage engine: it needs no scheduler and
// decides by a keyed draw what each pod does, so that a run takes few steps.
package jobs
