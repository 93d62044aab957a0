package cloneset

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
)

// cancelUpdates finds the pods that wait for the inPlaceUpdate hook and whose update is not
// wanted any more: the template is that of the pod again, pods are not updated in place any more, the
// partition keeps more pods, or the update is paused (a paused set should not have pods that are
// unavailable for an unknown time).
func (p *plan) cancelUpdates() {
	kept := p.wanted.replicas - p.wanted.partition
	updated := 0
	for i := range p.units {
		if u := &p.units[i]; u.isUpdated && u.state != kruise.StatePreparingUpdate && u.state != kruise.StatePreparingDelete {
			updated++
		}
	}
	for i := range p.units {
		u := &p.units[i]
		if u.state != kruise.StatePreparingUpdate {
			continue
		}
		switch {
		case u.of == p.updateRevision, !p.inPlace(), p.set.Spec.UpdateStrategy.Paused, p.changeTo(u.of, p.updateRevision).why != "", updated >= kept:
			u.cancelsUpdate = true
		default:
			updated++
		}
	}
}

// inPlace reports whether pods are updated in place where possible.
func (p *plan) inPlace() bool {
	t := p.set.Spec.UpdateStrategy.Type
	return t == v1alpha1.InPlaceIfPossible || t == v1alpha1.InPlaceOnly
}

// rollOut updates pods: those whose hook does not block them any more, and as many others as the
// budgets allow.
func (p *plan) rollOut() {
	u := &p.set.Spec.UpdateStrategy
	if u.Type == v1alpha1.OnDelete || u.Paused {
		return
	}
	p.continueUpdates()
	to, wanted := p.updateRevision, p.diff.update
	if wanted < 0 {
		to, wanted = p.currentRevision, -wanted
	}
	if wanted == 0 {
		return
	}
	unavailable := 0
	var updated []*Pod
	candidates := make([]*Pod, 0, max(p.outdated.all, p.updated.all))
	scatters := len(u.ScatterStrategy) > 0
	for i := range p.units {
		u := &p.units[i]
		switch {
		case u.of == to || u.isUpdated == (to == p.updateRevision):
			if !u.isAvailable {
				unavailable++
			}
			if scatters {
				updated = append(updated, u.Pod)
			}
		case u.acted, u.specified, u.state == kruise.StatePreparingDelete:
		default:
			candidates = append(candidates, u.Pod)
		}
	}
	p.decision.Actions = slices.Grow(p.decision.Actions, min(wanted, p.diff.unavailable, p.Limits.Pods))
	orderForUpdate(candidates, &p.set.Spec.UpdateStrategy, updated...)
	p.rejectedLast(candidates)
	for _, pod := range candidates {
		if wanted == 0 || unavailable >= p.diff.unavailable || max(p.decision.Tally.Updated, p.decision.Tally.Deleted) >= p.Limits.Pods {
			break
		}
		u := p.unitOf(pod)
		if u.isAvailable && p.diff.spare == 0 {
			continue
		}
		if !p.updatePod(u, to) {
			continue
		}
		if u.isAvailable {
			p.diff.spare--
		}
		wanted--
		unavailable++
	}
}

// rejectedLast moves pods whose last write the API has rejected to the end, where they are tried with what the budgets have left: as the first ones, they would
// use up the budgets in each plan, and no other pod would be updated.
func (p *plan) rejectedLast(pods []*Pod) {
	if len(p.Past.Rejected) == 0 {
		return
	}
	rank := func(pod *Pod) int {
		if p.Past.Rejected[pod.UID] {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(pods, func(a, b *Pod) int { return rank(a) - rank(b) })
}

// continueUpdates updates pods that have waited for their hook. They are unavailable already.
func (p *plan) continueUpdates() {
	for i := range p.units {
		u := &p.units[i]
		if u.state == kruise.StatePreparingUpdate && !u.acted && !u.cancelsUpdate && !blocks(p.hooks().InPlaceUpdate, u.Pod) && !u.specified {
			p.startInPlaceUpdate(u, p.updateRevision, p.changeTo(u.of, p.updateRevision))
		}
	}
}

// updatePod starts the update of a pod to a revision, and reports whether it could.
func (p *plan) updatePod(u *unit, to *Revision) bool {
	if !p.inPlace() || p.diff.replaced {
		p.recreate(u, to)
		return true
	}
	c := p.changeTo(u.of, to)
	if c.why == "" && p.diff.update > 0 {
		if p.diff.room <= 0 {
			return false // this plan creates enough pods of the revision already
		}
		p.diff.room--
	}
	switch {
	case c.why == "" && u.InPlaceGrace == "" && p.mustWaitForHook(u): // the hook was asked before the update was ordered
		p.startWaitForHook(u)
	case c.why == "":
		p.startInPlaceUpdate(u, to, c)
	case p.set.Spec.UpdateStrategy.Type == v1alpha1.InPlaceOnly:
		p.decision.stuck = "pod " + u.Name + " cannot be updated in place: " + c.why
		p.decision.Because("NotInPlace", "%s", p.decision.stuck)
		return false
	default:
		p.recreate(u, to)
	}
	return true
}

// mustWaitForHook reports whether the inPlaceUpdate hook must be asked: it blocks the pod, or the pod is Updated
// and the handlers of the last update are not complete.
func (p *plan) mustWaitForHook(u *unit) bool {
	h := p.hooks().InPlaceUpdate
	return blocks(h, u.Pod) || u.state == kruise.StateUpdated && h != nil
}

// startWaitForHook has a pod wait for the inPlaceUpdate hook.
func (p *plan) startWaitForHook(u *unit) {
	p.decision.Tally.Moved++
	b := patch{Metadata: patchMetadata{
		Labels:      map[string]*string{kruise.LabelState: ptrTo(string(kruise.StatePreparingUpdate))},
		Annotations: map[string]any{kruise.AnnotationStateSince: p.stamp()},
	}}
	if before := u.inPlaceState(); u.neverNormal() != (before != nil && before.PreparingNormal) {
		record := kruise.InPlaceUpdateState{Revision: u.revision, UpdateTimestamp: metav1.NewTime(p.now), LastContainerStatuses: map[string]kruise.InPlaceContainerStatus{}}
		if before != nil {
			record = *before
		}
		record.PreparingNormal = u.neverNormal()
		b.Metadata.Annotations[kruise.AnnotationInPlaceState] = text{record}
	}
	if u.state == kruise.StateUpdated {
		h := p.hooks().InPlaceUpdate
		for key, value := range h.LabelsHandler {
			b.Metadata.Labels[key] = ptrTo(value)
		}
		b.Metadata.Finalizers = h.FinalizersHandler
	}
	conditions := p.conditions(u, kruise.StatePreparingUpdate)
	if len(conditions) > 0 && len(b.Metadata.Finalizers) == 0 {
		b.Status = &patchStatus{Conditions: conditions}
	}
	p.patch(u, b, string(kruise.StatePreparingUpdate), "it will be updated in place")
}

// recreate deletes a pod so that one of the other revision takes its place.
func (p *plan) recreate(u *unit, to *Revision) {
	p.decision.Because("Recreates", "pod %s is deleted, for one of revision %s", u.Name, to.name())
	n := len(p.decision.Actions)
	p.remove(u, true, "one of revision "+to.name()+" takes its place")
	for i := n; i < len(p.decision.Actions); i++ {
		if a := &p.decision.Actions[i]; a.Object.GetUID() == u.UID { // its claims come later
			a.Event = "SuccessfulUpdatePodReCreate"
		}
	}
}
