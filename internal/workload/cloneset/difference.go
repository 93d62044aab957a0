package cloneset

import (
	"fmt"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
)

// wanted are the numbers of a spec, resolved.
type wanted struct {
	replicas, partition              int
	maxUnavailable, maxSurge         int
	scaleMaxUnavailable              int
	excludePreparingDelete, rollback bool
	// still: no pod is updated now, and none is made for it. Those whose deletion was asked
	// for are replaced all the same: that is another wish than the update.
	still bool
}

// group are the active pods of one revision, or of all others.
type group struct {
	all                 int // including those that wait for their preDelete hook
	preparing           int // of all: they wait for their preDelete hook
	toDelete            int // of the others: a user asked for their deletion
	unavailableToDelete int // of those: not available
	unavailable         int // of the remaining ones: not available
	// recreated counts the pods that can get the other revision only by being recreated.
	recreated int
}

func (g group) current() int { return g.all - g.preparing }

// difference is how far the pods are from what is wanted. Numbers are 0 or more, but
// for update.
type difference struct {
	// create pods, createOutdated of them of the old revision (which may be more than create),
	// createLimit of them now.
	create, createOutdated, createLimit int
	// remove pods, beside those whose deletion has begun or was asked for; removeOutdated of
	// them of the old revision (which may be more than remove).
	remove, removeOutdated int
	// spare is how many available pods may be taken away now.
	spare int
	// surge is how many pods there may be beyond replicas, surgeOutdated of them of the old
	// revision.
	surge, surgeOutdated int
	// update pods to the update revision, or, less than 0, to the current one.
	update int
	// replaced: enough of the other revision have been made already, so that those that are
	// to be updated only go.
	replaced bool
	// room is how many more pods there are to be of the update revision.
	room int
	// unavailable is how many pods of the revision that is updated to may be unavailable.
	unavailable int
}

// resolve takes the numbers of a spec. The error names what cannot be read; the number
// is then the careful one: nothing is updated, or nothing may be missed.
func resolve(set *v1alpha1.CloneSet) (w wanted, err error) {
	spec, u := &set.Spec, &set.Spec.UpdateStrategy
	w.replicas = 1
	if spec.Replicas != nil {
		w.replicas = int(*spec.Replicas)
	}
	read := func(field string, v *intstr.IntOrString, otherwise, careful int, up bool) int {
		if v == nil {
			return otherwise
		}
		n, e := intstr.GetScaledValueFromIntOrPercent(v, w.replicas, up)
		if e != nil || strings.HasPrefix(v.String(), "-") { // of a few pods, -5% is none
			err = fmt.Errorf("%s: %q is neither a number of pods nor a percentage", field, v.String())
			return careful
		}
		return n
	}
	w.partition = read("spec.updateStrategy.partition", u.Partition, 0, w.replicas, true)
	// A partition that is only not 100% leaves one pod to be updated.
	if p := u.Partition; p != nil && p.Type == intstr.String && p.StrVal != "100%" && w.replicas > 1 && w.partition == w.replicas && err == nil {
		w.partition--
	}
	w.partition = min(w.partition, w.replicas)
	w.maxSurge = read("spec.updateStrategy.maxSurge", u.MaxSurge, 0, 0, true)
	w.still = u.Paused || u.Type == v1alpha1.OnDelete
	fifth := intstr.FromString("20%")
	unavailable := u.MaxUnavailable
	if unavailable == nil {
		unavailable = &fifth
	}
	w.maxUnavailable = read("spec.updateStrategy.maxUnavailable", unavailable, 0, 0, w.maxSurge == 0 || w.still)
	w.scaleMaxUnavailable = read("spec.scaleStrategy.maxUnavailable", spec.ScaleStrategy.MaxUnavailable, math.MaxInt32, 0, true)
	w.excludePreparingDelete = set.Labels[kruise.LabelExcludePreparingDelete] == "true"
	w.rollback = set.Annotations[AnnotationPartitionRollback] == "true"
	return w, err
}

// AnnotationPartitionRollback with "true" on a CloneSet has pods that are beyond the
// partition go back to the current revision (Kruise's feature gate
// CloneSetPartitionRollback).
const AnnotationPartitionRollback = "rehearse-k8s.github.io/partition-rollback"

// differ compares what there is, of the update revision and of all others, with what is
// wanted. same says that the current revision is the update revision.
//
// The numbers are Kruise's (calculateDiffsWithExpectation), but that
//   - surge keeps its width to the end: as long as pods of the old revision are left to be
//     replaced, so many pods may be beyond replicas. Kruise's shrinks with the number of
//     pods that are still to be made, and its last pods go one by one (#2491, #1442);
//   - only pods that cannot be updated in place need surge (#2369), or those that may not
//     be missed for a moment: without surge nothing would move when maxUnavailable is 0;
//   - pods that wait for a preDelete hook do not have others removed in their place, so
//     that nothing needs to stop while one waits;
//   - pods whose deletion was asked for are as little available as they are: who counts
//     them as available until they are gone takes away too many others;
//   - what is removed, or is to be deleted anyway, is not updated as well, or more pods of
//     the old revision would go than the partition lets;
//   - pods are updated, however few there are, if they are of no use anyway (#2385);
//   - a pod whose deletion was asked for has its successor made first, if there may be surge,
//     also while the update is paused: with maxUnavailable 0 it would never go otherwise.
func differ(w wanted, outdated, updated group, same bool) (d difference) {
	all := outdated.all + updated.all
	preparing := outdated.preparing + updated.preparing
	toDelete := outdated.toDelete + updated.toDelete
	unavailable := preparing + outdated.unavailable + updated.unavailable

	outdatedDiff := outdated.current() - w.partition
	updatedDiff := updated.current() - (w.replicas - w.partition)
	if same || !w.rollback {
		outdatedDiff, updatedDiff = max(outdatedDiff, 0), min(updatedDiff, 0)
	}

	if w.maxSurge > 0 {
		d.surge, d.surgeOutdated = surge(w, outdated, updated, outdatedDiff, updatedDiff, unavailable)
	}
	total, totalOutdated := all, outdated.all
	if w.excludePreparingDelete {
		total, totalOutdated = total-preparing, totalOutdated-outdated.preparing
	}
	if d.create = max(w.replicas+d.surge-total, 0); d.create > 0 {
		d.createOutdated = max(w.partition+d.surgeOutdated-totalOutdated, 0)
		d.createLimit = min(d.create, max(w.scaleMaxUnavailable-unavailable, 0))
	}
	if d.remove = max(all-preparing-toDelete-(w.replicas+d.surge), 0); d.remove > 0 {
		d.removeOutdated = max(outdated.current()-outdated.toDelete-(w.partition+d.surgeOutdated), 0)
	}
	d.room = max(-updatedDiff, 0)
	available := all - unavailable - outdated.unavailableToDelete - updated.unavailableToDelete
	d.spare = max(available-(w.replicas-w.maxUnavailable), 0)

	// What is left when those are gone that go anyway.
	removeOutdated := min(d.remove, d.removeOutdated)
	outdatedLeft := outdatedDiff - outdated.toDelete - removeOutdated
	updatedLeft := updatedDiff - updated.toDelete - (d.remove - removeOutdated)
	switch {
	case outdatedDiff > 0 && updatedDiff >= 0 && d.surge > 0:
		d.update, d.replaced = max(outdatedLeft, 0), true
	case outdatedDiff > 0 && updatedLeft < 0:
		d.update = max(min(outdatedLeft, -updatedLeft), 0)
	case outdatedDiff < 0 && updatedDiff > 0:
		d.update = min(max(outdatedLeft, -updatedLeft), 0)
	}
	if d.update != 0 {
		d.unavailable = max(w.maxUnavailable+all-w.replicas, 1)
	}
	return d
}

// takeBack takes a pod into account that is needed again, and was not counted because it
// waited for its preDelete hook: one less is to be made.
func (d *difference) takeBack(updated bool) {
	d.create = max(d.create-1, 0)
	d.createLimit = min(d.createLimit, d.create)
	if !updated {
		d.createOutdated = max(d.createOutdated-1, 0)
	}
}

// surge is how many pods there may be beyond replicas: for those whose deletion somebody
// asked for and that may not be missed, or for the update, whichever is more.
func surge(w wanted, outdated, updated group, outdatedDiff, updatedDiff, unavailable int) (all, ofOutdated int) {
	toDelete := outdated.toDelete + updated.toDelete
	forScale := min(max(unavailable+toDelete-w.maxUnavailable, 0), toDelete)
	forUpdate, updateOutdated := 0, 0
	switch {
	case w.still:
	case outdatedDiff > 0:
		forUpdate = min(outdatedDiff, outdated.recreated)
		if w.maxUnavailable == 0 {
			forUpdate = max(forUpdate, min(outdatedDiff, -updatedDiff))
		}
	case outdatedDiff < 0 && updatedDiff > 0: // back to the old revision
		forUpdate = min(updatedDiff, updated.recreated)
		if w.maxUnavailable == 0 {
			forUpdate = max(forUpdate, min(updatedDiff, -outdatedDiff))
		}
		updateOutdated = forUpdate
	}
	if forScale >= forUpdate {
		all = min(w.maxSurge, forScale)
		return all, min(all, max(forScale-updated.toDelete, 0))
	}
	all = min(w.maxSurge, forUpdate)
	return all, min(all, updateOutdated)
}
