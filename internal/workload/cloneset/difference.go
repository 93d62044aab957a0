package cloneset

import (
	"fmt"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
)

// wanted are the resolved numbers of a spec.
type wanted struct {
	replicas, partition              int
	maxUnavailable, maxSurge         int
	scaleMaxUnavailable              int
	excludePreparingDelete, rollback bool
	// still: the update is paused or OnDelete, so no pod is updated, and none is created for an update. Pods
	// that a user specified for deletion are replaced all the same, because that is independent of the update.
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

// difference is the difference between the pods and the spec. All numbers are 0 or more, except update.
type difference struct {
	// create is how many pods are missing, createOutdated how many of them are of the old revision (which may
	// be more than create), and createLimit how many may be created now.
	create, createOutdated, createLimit int
	// remove is how many pods are surplus, without those that are specified for deletion or whose deletion has
	// begun; removeOutdated is how many of them are of the old revision (which may be more than remove).
	remove, removeOutdated int
	// spare is how many available pods may become unavailable now.
	spare int
	// surge is how many pods there may be beyond replicas, surgeOutdated how many of them are of the old
	// revision.
	surge, surgeOutdated int
	// update is how many pods are to get the update revision or, if negative, the current revision.
	update int
	// replaced: there are enough pods of the other revision already, so that the pods to be updated are only
	// deleted.
	replaced bool
	// room is how many more pods of the update revision there may be.
	room int
	// unavailable is how many pods of the target revision may be unavailable.
	unavailable int
}

// resolve resolves the numbers of a spec. The error names a number that cannot be read, which is replaced by
// the cautious value: no pod is updated, or none may be unavailable.
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
		if e != nil || strings.HasPrefix(v.String(), "-") { // of a few pods, -5% rounds to 0
			err = fmt.Errorf("%s: %q is neither a number of pods nor a percentage", field, v.String())
			return careful
		}
		return n
	}
	w.partition = read("spec.updateStrategy.partition", u.Partition, 0, w.replicas, true)
	// A partition of less than 100% updates at least one pod.
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
	// A percentage is rounded up if no surge is possible for an update, as with Kruise: a pause sets its maxSurge to 0.
	w.maxUnavailable = read("spec.updateStrategy.maxUnavailable", unavailable, 0, 0, w.maxSurge == 0 || u.Paused)
	w.scaleMaxUnavailable = read("spec.scaleStrategy.maxUnavailable", spec.ScaleStrategy.MaxUnavailable, math.MaxInt32, 0, true)
	w.excludePreparingDelete = set.Labels[kruise.LabelExcludePreparingDelete] == "true"
	w.rollback = set.Annotations[AnnotationPartitionRollback] == "true"
	return w, err
}

// AnnotationPartitionRollback with the value "true" on a CloneSet moves pods beyond the partition back to the
// current revision (Kruise's feature gate CloneSetPartitionRollback).
const AnnotationPartitionRollback = "rehearse-k8s.github.io/partition-rollback"

// differ compares the pods of the update revision and all others with the spec. same: the current revision is
// the update revision.
//
// The numbers are Kruise's (calculateDiffsWithExpectation), with these differences:
//   - Surge keeps its width to the end: while outdated pods are left to be replaced, maxSurge pods
//     may be beyond replicas. Kruise's surge shrinks with the number of missing pods, and its last
//     pods are updated one by one (#2491, #1442).
//   - Only pods that cannot be updated in place need surge (#2369), or all if maxUnavailable is 0:
//     without surge the update would never start.
//   - While pods wait for a preDelete hook, no other pods are deleted in their place, so a hook
//     blocks only its pod.
//   - Pods specified for deletion count as available only if they are. Counting them as available
//     until they are gone makes too many others unavailable.
//   - Pods that are surplus or specified for deletion are not updated as well, or more outdated
//     pods would go than the partition allows.
//   - Unavailable pods are updated even if too few pods are available (#2385).
//   - The successor of a pod specified for deletion is created first if surge is allowed, also
//     while the update is paused: with maxUnavailable 0 the pod would never be deleted otherwise.
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

	// The numbers without the pods that are deleted in any case.
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

// takeBack counts a pod whose deletion is cancelled: it did not count while it waited for its preDelete hook,
// so one pod less is missing.
func (d *difference) takeBack(updated bool) {
	d.create = max(d.create-1, 0)
	d.createLimit = min(d.createLimit, d.create)
	if !updated {
		d.createOutdated = max(d.createOutdated-1, 0)
	}
}

// surge returns how many pods there may be beyond replicas: for pods that are specified for deletion and must
// not become unavailable, or for the update, whichever is more.
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
	case outdatedDiff < 0 && updatedDiff > 0: // a rollback to the current revision
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
