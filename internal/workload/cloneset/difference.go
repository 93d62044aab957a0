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
	all         int // with those that wait for their preDelete hook
	preparing   int // those
	toDelete    int // of the others: somebody asked for their deletion by name
	useless     int // of those: not available anyway
	unavailable int // of the rest
	// recreated are those that can only come to the other revision as new pods.
	recreated int
}

func (g group) current() int { return g.all - g.preparing }

// difference is how far the pods are from what is wanted. Numbers are 0 or more, but
// for update.
type difference struct {
	// create pods, createOld of them of the old revision (which may be more than create),
	// createLimit of them now.
	create, createOld, createLimit int
	// remove pods, beside those whose deletion has begun or was asked for; removeOld of
	// them of the old revision (which may be more than remove).
	remove, removeOld int
	// spare is how many available pods may be taken away now.
	spare int
	// surge is how many pods there may be beyond replicas, surgeOld of them of the old
	// revision.
	surge, surgeOld int
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
func differ(w wanted, old, updated group, same bool) (d difference) {
	all := old.all + updated.all
	preparing := old.preparing + updated.preparing
	toDelete := old.toDelete + updated.toDelete
	unavailable := preparing + old.unavailable + updated.unavailable

	oldDiff := old.current() - w.partition
	newDiff := updated.current() - (w.replicas - w.partition)
	if same || !w.rollback {
		oldDiff, newDiff = max(oldDiff, 0), min(newDiff, 0)
	}

	if w.maxSurge > 0 {
		d.surge, d.surgeOld = surge(w, old, updated, oldDiff, newDiff, unavailable)
	}
	total, totalOld := all, old.all
	if w.excludePreparingDelete {
		total, totalOld = total-preparing, totalOld-old.preparing
	}
	if d.create = max(w.replicas+d.surge-total, 0); d.create > 0 {
		d.createOld = max(w.partition+d.surgeOld-totalOld, 0)
		d.createLimit = min(d.create, max(w.scaleMaxUnavailable-unavailable, 0))
	}
	if d.remove = max(all-preparing-toDelete-(w.replicas+d.surge), 0); d.remove > 0 {
		d.removeOld = max(old.current()-old.toDelete-(w.partition+d.surgeOld), 0)
	}
	d.room = max(-newDiff, 0)
	available := all - unavailable - old.useless - updated.useless
	d.spare = max(available-(w.replicas-w.maxUnavailable), 0)

	// What is left when those are gone that go anyway.
	removeOld := min(d.remove, d.removeOld)
	oldLeft := oldDiff - old.toDelete - removeOld
	newLeft := newDiff - updated.toDelete - (d.remove - removeOld)
	switch {
	case oldDiff > 0 && newDiff >= 0 && d.surge > 0:
		d.update, d.replaced = max(oldLeft, 0), true
	case oldDiff > 0 && newLeft < 0:
		d.update = max(min(oldLeft, -newLeft), 0)
	case oldDiff < 0 && newDiff > 0:
		d.update = min(max(oldLeft, -newLeft), 0)
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
		d.createOld = max(d.createOld-1, 0)
	}
}

// surge is how many pods there may be beyond replicas: for those whose deletion somebody
// asked for and that may not be missed, or for the update, whichever is more.
func surge(w wanted, old, updated group, oldDiff, newDiff, unavailable int) (all, ofOld int) {
	toDelete := old.toDelete + updated.toDelete
	forScale := min(max(unavailable+toDelete-w.maxUnavailable, 0), toDelete)
	forUpdate, updateOld := 0, 0
	switch {
	case w.still:
	case oldDiff > 0:
		forUpdate = min(oldDiff, old.recreated)
		if w.maxUnavailable == 0 {
			forUpdate = max(forUpdate, min(oldDiff, -newDiff))
		}
	case oldDiff < 0 && newDiff > 0: // back to the old revision
		forUpdate = min(newDiff, updated.recreated)
		if w.maxUnavailable == 0 {
			forUpdate = max(forUpdate, min(newDiff, -oldDiff))
		}
		updateOld = forUpdate
	}
	if forScale >= forUpdate {
		all = min(w.maxSurge, forScale)
		return all, min(all, max(forScale-updated.toDelete, 0))
	}
	all = min(w.maxSurge, forUpdate)
	return all, min(all, updateOld)
}
