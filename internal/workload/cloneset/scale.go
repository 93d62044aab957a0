package cloneset

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// cancelDeletions takes back pods that wait for their preDelete hook and are needed again, except
// those whose deletion a user asked for. With markPodNotReady it takes back none, as with Kruise:
// clients may have observed that the pod is not ready.
func (p *plan) cancelDeletions() {
	if hooks := p.hooks(); marksNotReady(hooks.PreDelete) || marksNotReady(hooks.InPlaceUpdate) {
		return
	}
	unspecified := 0
	var waiting []*unit
	for i := range p.units {
		u := &p.units[i]
		if u.specified {
			continue
		}
		unspecified++
		if u.state == kruise.StatePreparingDelete {
			waiting = append(waiting, u)
		}
	}
	// Pods whose deletion a user asked for do not count.
	needed := p.wanted.replicas - (unspecified - len(waiting))
	slices.SortFunc(waiting, func(a, b *unit) int {
		if a.isUpdated != b.isUpdated {
			if a.isUpdated {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	for _, u := range waiting {
		if needed <= 0 {
			return
		}
		needed--
		if u.acted {
			continue
		}
		to := kruise.StatePreparingNormal
		if s := u.inPlaceState(); u.InPlaceGrace != "" || s != nil && !p.updateDone(u) {
			to = kruise.StateUpdating
		}
		p.move(u, to, "it is needed again")
		u.acted = true
		if p.wanted.excludePreparingDelete {
			p.diff.takeBack(u.isUpdated)
		}
	}
}

// replaceFinished deletes pods that have finished; new pods replace them. Their claims
// stay for those, unless the set does not reuse claims.
func (p *plan) replaceFinished() {
	for _, pod := range p.inactive {
		if !pod.Terminating {
			p.remove(&unit{Pod: pod, of: p.revisionOf(pod)}, false, "it has finished")
		}
	}
}

// continueDeletions deletes pods in PreparingDelete that their preDelete hook does not block any more.
func (p *plan) continueDeletions() {
	for i := range p.units {
		if u := &p.units[i]; u.state == kruise.StatePreparingDelete && !u.acted {
			p.remove(u, u.specified, "its preDelete hook does not block it any more")
		}
	}
}

// deleteSpecified deletes pods whose deletion a user asked for: unavailable ones at once, available ones
// within the budget spare.
func (p *plan) deleteSpecified() {
	for i := range p.units {
		if u := &p.units[i]; u.specified && u.state != kruise.StatePreparingDelete && p.spared(u) {
			p.remove(u, true, p.whySpecified(u))
		}
	}
}

// whySpecified returns why a pod is specified for deletion. The label may be the controller's own: a pod
// with claims gets it before it is deleted, for whatever reason.
func (p *plan) whySpecified(u *unit) string {
	if p.toDelete[u.Name] {
		return "spec.scaleStrategy.podsToDelete names it"
	}
	return "it is marked with " + kruise.LabelSpecifiedDelete
}

// spared reports whether a pod may be deleted now, and spends the budget spare for an available one.
func (p *plan) spared(u *unit) bool {
	switch {
	case u.acted:
		return false
	case !u.isAvailable:
		return true
	case p.diff.spare == 0:
		return false
	}
	p.diff.spare--
	return true
}

// scaleDown deletes surplus pods: first outdated ones, as far as they are beyond the partition.
func (p *plan) scaleDown() {
	if p.diff.remove == 0 {
		return
	}
	outdated, updated := make([]*Pod, 0, p.outdated.all), make([]*Pod, 0, p.updated.all)
	for i := range p.units {
		u := &p.units[i]
		if u.specified || u.state == kruise.StatePreparingDelete {
			continue
		}
		if u.isUpdated {
			updated = append(updated, u.Pod)
		} else {
			outdated = append(outdated, u.Pod)
		}
	}
	minReady := time.Duration(p.set.Spec.MinReadySeconds) * time.Second
	spread := Spread{Constraints: p.set.Spec.Template.Spec.TopologySpreadConstraints, Nodes: p.Nodes}
	fromOutdated := min(p.diff.remove, p.diff.removeOutdated, len(outdated))
	fromUpdated := min(p.diff.remove-fromOutdated, len(updated))
	fromOutdated = min(p.diff.remove-fromUpdated, len(outdated)) // if there are not enough updated ones
	for _, group := range []struct {
		pods []*Pod
		take int
	}{{outdated, fromOutdated}, {updated, fromUpdated}} {
		if group.take < len(group.pods) {
			rankForDeletion(p.now, group.pods, minReady, spread)
		}
		for _, pod := range group.pods[:group.take] {
			if p.decision.Tally.Deleted >= p.Limits.Pods {
				return // the next plan goes on
			}
			if u := p.unitOf(pod); p.spared(u) {
				p.remove(u, false, "there are more pods than wanted")
			}
		}
	}
}

// remove takes the next step of a pod's deletion: the hook is asked, then the pod is deleted. If the pod
// has claims, first the pod and then the claims are marked, so that a crash in between leaves no claim
// behind; no claim is deleted before its pod, because the deletion may be cancelled. specified: a user
// asked for the deletion.
func (p *plan) remove(u *unit, specified bool, why string) {
	hook := p.hooks().PreDelete
	mark := patch{Metadata: patchMetadata{Labels: map[string]*string{}}}
	if specified && !u.marked {
		mark.Metadata.Labels[kruise.LabelSpecifiedDelete] = ptrTo("true")
	}
	if blocks(hook, u.Pod) {
		if u.state == kruise.StatePreparingDelete {
			u.acted = true
			return // the status reports what it waits for
		}
		mark.Metadata.Labels[kruise.LabelState] = ptrTo(string(kruise.StatePreparingDelete))
		mark.Metadata.Annotations = map[string]any{kruise.AnnotationStateSince: p.stamp()}
		if conditions := p.conditions(u, kruise.StatePreparingDelete); len(conditions) > 0 {
			mark.Status = &patchStatus{Conditions: conditions}
		}
		p.decision.Tally.Moved++
		p.patch(u, mark, string(kruise.StatePreparingDelete), why)
		return
	}
	keepsClaims := !u.active && !p.set.Spec.ScaleStrategy.DisablePVCReuse
	if claims := p.claimsOf(u.instance); len(claims) > 0 && !keepsClaims {
		left := slices.DeleteFunc(claims, func(c *Claim) bool { return c.Marked || c.Terminating })
		switch {
		case u.marked && len(left) == 0:
		case p.marks >= p.Limits.Pods:
			return // the next plan goes on
		case !u.marked:
			p.marks++
			mark.Metadata.Labels[kruise.LabelSpecifiedDelete] = ptrTo("true")
			p.patch(u, mark, "Marked", why)
			return
		default:
			p.marks++
			u.acted = true
			for _, c := range left {
				p.markClaim(c, `"true"`, "its pod "+u.Name+" is to be deleted")
			}
			return
		}
	}
	if p.decision.Tally.Deleted >= p.Limits.Pods {
		return
	}
	p.decision.Tally.Deleted++
	u.acted = true
	p.decision.Act(workload.Action{
		// The pod may have become available or blocked meanwhile; then the write fails and the next plan
		// decides again.
		Verb: workload.Delete, Object: u.object(), Exact: !u.isAvailable || hook != nil,
		Reason: workload.Reason{Code: "SuccessfulDelete", Text: why},
	})
}

// scaleUp creates the missing pods: first those of the current revision.
func (p *plan) scaleUp() {
	if p.diff.create == 0 {
		return
	}
	// A change of the set is tried at once: it may fix the cause of the failure.
	if wait := p.Past.RetryAt.Sub(p.now); wait > 0 && p.set.Generation == p.Past.RetryOf {
		p.decision.WakeIn(wait)
		p.decision.Because("WaitsAfterFailure", "%d pods are missing; the last creates failed, and the next one is tried in %s", p.diff.create, wait.Round(time.Millisecond))
		return
	}
	n := min(p.diff.createLimit, p.Limits.Pods)
	if n < p.diff.create && p.diff.createLimit < p.diff.create {
		if p.wanted.scaleMaxUnavailable == 0 {
			p.decision.limited = fmt.Sprintf("%d pods are missing, and spec.scaleStrategy.maxUnavailable is 0: no pod may be created", p.diff.create)
		}
		p.decision.Because("ScaleUpLimited", "%d pods are missing; spec.scaleStrategy.maxUnavailable allows to create %d now", p.diff.create, p.diff.createLimit)
		p.decision.Emit(true, "ScaleUpLimited", fmt.Sprintf("%d pods are missing; spec.scaleStrategy.maxUnavailable allows to create %d now", p.diff.create, p.diff.createLimit))
	}
	if p.Past.CreateLimit > 0 {
		n = min(n, p.Past.CreateLimit)
	}
	outdated := min(p.diff.createOutdated, n)
	for i, instance := range p.instances(n) {
		from := p.updateRevision
		if i < outdated {
			from = p.currentRevision
		} else {
			p.diff.room--
		}
		p.create(from, instance)
	}
}

// instances returns n free instance-ids: first those whose claims wait for a pod, then new ones, and
// last those whose creates failed. A finished pod whose claims will be reused takes one of the n
// places until it is deleted, because its successor gets its name.
func (p *plan) instances(n int) (ids []string) {
	borne := make(map[string]bool, len(p.Pods))
	for _, pods := range [][]*Pod{p.Pods, p.unadoptable} {
		for _, pod := range pods {
			borne[pod.instance] = true
		}
	}
	reuse := !p.set.Spec.ScaleStrategy.DisablePVCReuse
	if reuse {
		for _, pod := range p.inactive {
			if !pod.marked && len(p.claimsOf(pod.instance)) > 0 {
				n--
				p.decision.Because("WaitsForClaims", "pod %s must be deleted before another pod uses its volumes", pod.Name)
			}
		}
	}
	var failed []string
	take := func(id string) bool {
		name := podName(p.set.Name, id)
		// A pod with a name in podsToDelete would be deleted, and each successor too, until the name is
		// removed from the list.
		if p.Past.Taken[name] || p.hasPodNamed(name) || p.toDelete[name] {
			return false
		}
		if p.Past.Failed[name] {
			failed = append(failed, id)
			return false
		}
		ids = append(ids, id)
		return true
	}
	unclaimed := map[string]bool{}
	for _, c := range p.Claims {
		if c.Instance == "" || borne[c.Instance] || unclaimed[c.Instance] {
			continue
		}
		unclaimed[c.Instance] = true
		if reuse && !c.Marked && !c.Terminating && len(ids) < n {
			take(c.Instance)
		}
	}
	tried := len(failed) // these slots are skipped first, and tried at the end
	for slot := 0; len(ids) < n && slot < len(p.Pods)+len(p.Claims)+len(p.Past.Taken)+len(p.toDelete)+n+tried+len(p.Past.Failed)+1; slot++ {
		if id := instanceID(p.set.UID, slot); !borne[id] && !unclaimed[id] {
			take(id)
		}
	}
	if missing := n - len(ids); missing > 0 {
		ids = append(ids, failed[:min(missing, len(failed))]...)
	}
	return ids
}

// create creates a pod, and its claims before it.
func (p *plan) create(from *Revision, instance string) {
	pod := p.podFrom(from, instance)
	p.decision.Tally.Created++
	made := &workload.Action{Verb: workload.Create, Object: pod, Reason: workload.Reason{Code: "SuccessfulCreate", Text: "there are fewer pods than wanted"}}
	templates := p.claimTemplates(from)
	for i := len(templates) - 1; i >= 0; i-- {
		c := p.claimFrom(&templates[i], instance)
		if is := p.claimOf(c.Name); is != nil && !is.Terminating {
			continue
		}
		made = &workload.Action{Verb: workload.Create, Object: c, Then: made, Reason: workload.Reason{Code: "SuccessfulCreate", Text: "pod " + pod.Name + " will mount it"}}
	}
	p.decision.Act(*made)
}

// podFrom returns a new pod of a revision.
func (p *plan) podFrom(from *Revision, instance string) *corev1.Pod {
	t := from.Template.DeepCopy()
	pod := &corev1.Pod{Spec: t.Spec}
	pod.Namespace, pod.Name = p.set.Namespace, podName(p.set.Name, instance)
	pod.Labels, pod.Annotations, pod.Finalizers = t.Labels, t.Annotations, t.Finalizers
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	delete(pod.Labels, kruise.LabelSpecifiedDelete) // the pod and each successor would be deleted
	pod.OwnerReferences = ownedBy(p.set)
	pod.Labels[kruise.LabelInstanceID] = instance
	pod.Labels[kruise.LabelRevision] = from.name()
	pod.Labels[kruise.LabelTemplateHash] = shortHash(from.name())
	pod.Labels[kruise.LabelState] = string(kruise.StatePreparingNormal)
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[kruise.AnnotationStateSince] = p.stamp()
	addGate(&pod.Spec, kruise.ConditionInPlaceUpdateReady)
	hooks := p.hooks()
	for _, h := range []*kruise.LifecycleHook{hooks.PreDelete, hooks.InPlaceUpdate} {
		if h != nil && h.MarkPodNotReady {
			addGate(&pod.Spec, kruise.ConditionPodReady)
		}
	}
	p.mountClaims(&pod.Spec, from, instance)
	return pod
}

func addGate(spec *corev1.PodSpec, condition string) {
	gate := corev1.PodReadinessGate{ConditionType: corev1.PodConditionType(condition)}
	if !slices.Contains(spec.ReadinessGates, gate) {
		spec.ReadinessGates = append(spec.ReadinessGates, gate)
	}
}
