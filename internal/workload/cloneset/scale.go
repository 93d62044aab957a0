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

// cancelDeletions takes pods back that wait for their preDelete hook and are needed again. One
// whose deletion somebody asked for is not. With markPodNotReady none is, as with Kruise: others
// know by then that the pod is on its way out.
func (p *plan) cancelDeletions() {
	if hooks := p.hooks(); marks(hooks.PreDelete) || marks(hooks.InPlaceUpdate) {
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
	// So many are there without those that are to be deleted in any case.
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

// replaceFinished deletes pods that have finished: others take their places. Their claims
// stay for those, but where the set says that claims are not used again.
func (p *plan) replaceFinished() {
	for _, pod := range p.inactive {
		if !pod.Terminating {
			p.remove(&unit{Pod: pod, of: p.revisionOf(pod)}, false, "it has finished")
		}
	}
}

// continueDeletions deletes pods that wait for their preDelete hook and are not held any more.
func (p *plan) continueDeletions() {
	for i := range p.units {
		if u := &p.units[i]; u.state == kruise.StatePreparingDelete && !u.acted {
			p.remove(u, u.specified, "its preDelete hook does not hold it any more")
		}
	}
}

// deleteSpecified deletes pods whose deletion was asked for: those that are not available
// at once, the others as far as they can be spared.
func (p *plan) deleteSpecified() {
	for i := range p.units {
		if u := &p.units[i]; u.specified && u.state != kruise.StatePreparingDelete && p.spared(u) {
			p.remove(u, true, p.whySpecified(u))
		}
	}
}

// whySpecified says who wants a pod deleted. The mark may be our own: a pod with claims gets
// it first, whatever it is deleted for.
func (p *plan) whySpecified(u *unit) string {
	if p.toDelete[u.Name] {
		return "spec.scaleStrategy.podsToDelete names it"
	}
	return "it is marked with " + kruise.LabelSpecifiedDelete
}

// spared tells whether a pod can be taken away now, and takes it off what can.
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

// shrink deletes pods beyond what is wanted, those of the old revision first as far as
// they are beyond the partition.
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
	fromOutdated = min(p.diff.remove-fromUpdated, len(outdated)) // if there are not enough of the others
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
				p.remove(u, false, "there are more pods than are wanted")
			}
		}
	}
}

// remove takes the next step of a pod's deletion: its hook is asked, then it is deleted. Of
// a pod with claims of its own the deletion is marked first, on it and then on them, so that
// no claim is left behind by who stops in between; none is deleted before its pod is, which
// may stay after all. specified says that the pod is to go in any case.
func (p *plan) remove(u *unit, specified bool, why string) {
	hook := p.hooks().PreDelete
	mark := patch{Metadata: patchMetadata{Labels: map[string]*string{}}}
	if specified && !u.marked {
		mark.Metadata.Labels[kruise.LabelSpecifiedDelete] = ptrTo("true")
	}
	if held(hook, u.Pod) {
		if u.state == kruise.StatePreparingDelete {
			u.acted = true
			return // what it waits for, the status says
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
		// Who is not available, or not held, may be by now: then it is decided again.
		Verb: workload.Delete, Object: u.object(), Exact: !u.isAvailable || hook != nil,
		Reason: workload.Reason{Code: "SuccessfulDelete", Text: why},
	})
}

// grow makes the pods that are missing, those of the old revision first.
func (p *plan) scaleUp() {
	if p.diff.create == 0 {
		return
	}
	// Whoever changes the set has it tried at once: it may be what was wrong.
	if wait := p.Past.RetryAt.Sub(p.now); wait > 0 && p.set.Generation == p.Past.RetryOf {
		p.decision.WakeIn(wait)
		p.decision.Because("WaitsAfterFailure", "%d pods are missing; the last ones could not be made, and the next is tried in %s", p.diff.create, wait.Round(time.Millisecond))
		return
	}
	n := min(p.diff.createLimit, p.Limits.Pods)
	if n < p.diff.create && p.diff.createLimit < p.diff.create {
		if p.wanted.scaleMaxUnavailable == 0 {
			p.decision.limited = fmt.Sprintf("%d pods are missing, and spec.scaleStrategy.maxUnavailable is 0: none may be made", p.diff.create)
		}
		p.decision.Because("ScaleUpLimited", "%d pods are missing; spec.scaleStrategy.maxUnavailable lets %d be made now", p.diff.create, p.diff.createLimit)
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

// instances are so many free instance-ids: first those whose claims wait for a pod, then
// new ones. A pod that is still there, and whose claims are to be used again, keeps a
// place: its successor has its name. Those that failed the last time come last.
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
				p.decision.Because("WaitsForClaims", "pod %s has to be gone before another takes its volumes", pod.Name)
			}
		}
	}
	var failed []string
	take := func(id string) bool {
		name := podName(p.set.Name, id)
		// A name in podsToDelete is one of a pod that is gone: its successor would be
		// deleted, and the next one too, until the list is tidied up.
		if p.Past.Taken[name] || p.bears(name) || p.toDelete[name] {
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
	tried := len(failed) // so many slots are passed over, and then tried after all
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

// create makes a pod, and its claims before it.
func (p *plan) create(from *Revision, instance string) {
	pod := p.podFrom(from, instance)
	p.decision.Tally.Created++
	made := &workload.Action{Verb: workload.Create, Object: pod, Reason: workload.Reason{Code: "SuccessfulCreate", Text: "it is missing"}}
	templates := p.claimTemplates(from)
	for i := len(templates) - 1; i >= 0; i-- {
		c := p.claimFrom(&templates[i], instance)
		if is := p.claimOf(c.Name); is != nil && !is.Terminating {
			continue
		}
		made = &workload.Action{Verb: workload.Create, Object: c, Then: made, Reason: workload.Reason{Code: "SuccessfulCreate", Text: "pod " + pod.Name + " is to have it"}}
	}
	p.decision.Act(*made)
}

// podFrom is a pod of a revision.
func (p *plan) podFrom(from *Revision, instance string) *corev1.Pod {
	t := from.Template.DeepCopy()
	pod := &corev1.Pod{Spec: t.Spec}
	pod.Namespace, pod.Name = p.set.Namespace, podName(p.set.Name, instance)
	pod.Labels, pod.Annotations, pod.Finalizers = t.Labels, t.Annotations, t.Finalizers
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	delete(pod.Labels, kruise.LabelSpecifiedDelete) // it would be deleted again, and its successor, for ever
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
