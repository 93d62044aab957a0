package job

import (
	"cmp"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// scale decides which pods are created and which are removed.
func (p *plan) scale() {
	switch {
	case p.job.DeletionTimestamp != nil:
		p.decision.Because("Deleting", "the Job is being deleted: no pod is created or removed")
	case p.verdict != nil:
		// Pods are removed by a plan whose Job shows why.
	case p.failureTarget != nil:
		p.deleteAll()
	case p.successMet != nil:
		p.remove(p.active, "the Job has succeeded")
	case p.suspended():
		p.decision.Because("Suspended", "the Job is suspended: no pod is created")
		p.remove(p.active, "the Job is suspended")
	default:
		p.fit()
	}
}

// deleteAll deletes all active pods of a Job that has failed. They keep the tracking finalizer,
// because they count as failed and will be recorded. For a pod without it (its removal has started)
// the delete is for the observed version only, because the pod may have finished.
func (p *plan) deleteAll() {
	for _, pod := range p.active[:min(len(p.active), p.Limits.Pods)] {
		p.decision.Act(workload.Action{Verb: workload.Delete, Object: pod, Exact: !hasFinalizer(pod), Reason: workload.Reason{Code: "SuccessfulDelete", Text: "the Job has failed"}})
		p.decision.Tally.Removed++
	}
	if len(p.active) > 0 {
		p.decision.Because("Removes", "the Job has failed: its %d active pods are deleted", len(p.active))
	}
}

// fit creates or removes pods until as many are active as wanted.
func (p *plan) fit() {
	want := p.wanted()
	if surplus := p.surplus(len(p.active) - want); len(surplus) > 0 {
		p.decision.Tally.Surplus = len(surplus)
		p.remove(surplus, "there are more pods than are wanted")
		return
	}
	missing := want - len(p.active)
	if replacesOnlyFailed(p.job) {
		missing -= p.terminating
	}
	if missing <= 0 {
		p.decision.Because("Enough", "%d pods are active, %d are wanted; nothing to create", len(p.active), want)
		return
	}
	if p.indexed() {
		p.createIndexes(p.pending(), missing)
	} else {
		p.createSlots(missing)
	}
}

// wanted returns how many pods should be active.
func (p *plan) wanted() int {
	parallelism := int(ptr.Deref(p.job.Spec.Parallelism, 1))
	switch {
	case p.job.Spec.Completions != nil:
		return max(0, min(parallelism, p.completions()-p.succeeded))
	case p.succeeded > 0:
		return len(p.active) // the work is done; the running pods may finish
	default:
		return parallelism
	}
}

// surplus returns at least so many pods to remove: first those without a valid index and those whose
// index another pod has too, then the first in removal order.
func (p *plan) surplus(atLeast int) (surplus []*corev1.Pod) {
	left := p.active
	if p.indexed() {
		left, surplus = p.oneOfEach()
	}
	if atLeast > len(surplus) {
		left = slices.Clone(left)
		slices.SortFunc(left, byRemovalOrder)
		surplus = append(surplus, left[:min(len(left), atLeast-len(surplus))]...)
	}
	return surplus
}

// oneOfEach keeps, of each index, the active pod that is last in removal order.
func (p *plan) oneOfEach() (keep, surplus []*corev1.Pod) {
	again := false
	for k, i := range p.activeAt {
		again = again || !p.isIndex(i) || k > 0 && p.activeAt[k-1] == i
	}
	if !again {
		return p.active, nil
	}
	all := slices.Clone(p.active)
	slices.SortFunc(all, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(completionIndex(a), completionIndex(b)), byRemovalOrder(b, a))
	})
	last := noIndex
	for _, pod := range all {
		i := completionIndex(pod)
		if !p.isIndex(i) || i == last {
			surplus = append(surplus, pod)
			continue
		}
		keep, last = append(keep, pod), i
	}
	return keep, surplus
}

// pending yields the indexes that have neither succeeded nor failed and have no pod. A Job may have
// billions of indexes, so it skips finished spans at once.
func (p *plan) pending() func(yield func(int) bool) {
	waitsForTermination := replacesOnlyFailed(p.job)
	return func(yield func(int) bool) {
		for i := 0; i < p.completions(); i++ {
			switch {
			case p.succeededNow.Has(i):
				i = p.succeededNow[p.succeededNow.at(i)].Last
			case p.failedNow.Has(i):
				i = p.failedNow[p.failedNow.at(i)].Last
			case p.activeAt.has(i), waitsForTermination && p.endingAt.has(i):
			default:
				if !yield(i) {
					return
				}
			}
		}
	}
}

// createIndexes creates the pods of the first indexes that need not wait. An index that waits after
// its own failure does not block those after it.
func (p *plan) createIndexes(pending func(func(int) bool), missing int) {
	if !p.perIndex() && p.backsOff(missing) {
		return
	}
	most, created, waiting := p.batch(missing), 0, 0
	for i := range pending {
		if created == most {
			break
		}
		last := p.lastFailed[i]
		if last != nil {
			if left := p.Limits.remaining(p.now, failuresOf(last)+1, finishedAt(last)); left > 0 {
				p.decision.WakeIn(left)
				waiting++
				continue
			}
		}
		p.create(podFrom(p.job, p.freeName(i, i), i, last))
		created++
	}
	switch {
	case waiting > 0:
		p.decision.Because("WaitsForBackoff", "%d indexes wait after a failure", waiting)
	case created == 0:
		p.decision.Because("Enough", "every index has succeeded, failed or has a pod; nothing to create")
	}
	p.tallyCreated(created, missing)
}

// createSlots creates pods of a Job without indexes, in the first slots that no pod uses after those
// of finished pods: see names.go.
func (p *plan) createSlots(missing int) {
	if p.backsOff(missing) {
		return
	}
	u := ptr.Deref(p.job.Status.UncountedTerminatedPods, batchv1.UncountedTerminatedPods{})
	slot := int(p.job.Status.Succeeded+p.job.Status.Failed) + len(u.Succeeded) + len(u.Failed)
	n := p.batch(missing)
	for created := 0; created < n; slot++ {
		if name := podName(p.job, noIndex, slot, 0); !p.hasPodNamed(name) && !p.Past.Taken[name] {
			p.create(podFrom(p.job, name, noIndex, nil))
			created++
		}
	}
	p.tallyCreated(n, missing)
}

// backsOff reports whether creations wait because pods have failed.
func (p *plan) backsOff(missing int) bool {
	past := p.decision.Past
	left := p.Limits.remaining(p.now, past.Failures, past.LastFailure)
	if left <= 0 {
		return false
	}
	p.decision.WakeIn(left)
	p.decision.Because("WaitsForBackoff", "%d pods wait for %s after %d failures", missing, left.Round(time.Second), past.Failures)
	return true
}

// batch returns how many of the missing pods this plan creates.
func (p *plan) batch(missing int) int {
	return min(missing, p.Limits.Pods, max(1, p.Past.Batch))
}

func (p *plan) create(pod *corev1.Pod) {
	p.decision.Act(workload.Action{Verb: workload.Create, Object: pod, Reason: workload.Reason{Code: "SuccessfulCreate", Text: "there are fewer pods than are wanted"}})
}

func (p *plan) tallyCreated(n, missing int) {
	p.decision.Tally.Created = n
	p.decision.Tally.Replaces = p.failed > 0 || p.terminating > 0
	if n > 0 {
		p.decision.Because("Creates", "%d of %d missing pods are created", n, missing)
	}
}
