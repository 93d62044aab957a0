package cloneset

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// checkPods checks that nothing of the controller is left on pods whose state does not need it.
func (f *follower) checkPods(e *finalState) error {
	for _, p := range f.of(e.record.uid) {
		now := p.now()
		if now.gone {
			continue
		}
		for _, finalizer := range p.added {
			if slices.Contains(now.pod.Finalizers, finalizer) && !hooksName(&e.hooks, finalizer) {
				return fmt.Errorf("a controller added the finalizer %s to %s, and no hook names it any more", finalizer, p.name)
			}
		}
		if !now.active() {
			continue
		}
		if now.normal() && now.gated(kruise.ConditionInPlaceUpdateReady) && now.pod.Spec.NodeName != "" && now.is(kruise.ConditionInPlaceUpdateReady) != corev1.ConditionTrue {
			return fmt.Errorf("%s is Normal, and InPlaceUpdateReady is %q", p.name, now.is(kruise.ConditionInPlaceUpdateReady))
		}
		if key := now.staleKey(); key != "" {
			return fmt.Errorf("%s is %q, and the hook's key %s keeps it out of traffic", p.name, now.state, key)
		}
	}
	return nil
}

// hooksName reports whether a hook names a finalizer as a handler.
func hooksName(l *kruise.Lifecycle, finalizer string) bool {
	return slices.ContainsFunc([]*kruise.LifecycleHook{l.PreDelete, l.InPlaceUpdate, l.PreNormal}, func(h *kruise.LifecycleHook) bool {
		return h != nil && slices.Contains(h.FinalizersHandler, finalizer)
	})
}

// staleKey returns the key of a hook that keeps a pod out of traffic although the pod is in no state
// of that hook.
func (p *podVersion) staleKey() string {
	c := p.condition(kruise.ConditionPodReady)
	if c == nil || c.Status != corev1.ConditionFalse {
		return ""
	}
	var all []kruise.NotReadyMessage
	if json.Unmarshal([]byte(c.Message), &all) != nil {
		return ""
	}
	for _, m := range all {
		switch {
		case m.UserAgent != "Lifecycle":
		case m.Key == "preDeleteHook" && p.state != kruise.StatePreparingDelete,
			m.Key == "preUpdateHook" && p.state != kruise.StatePreparingUpdate && p.state != kruise.StateUpdating:
			return m.Key
		}
	}
	return ""
}

// checkClaims checks that no claim is left of a pod that a controller has deleted or, if claims are
// not reused, of any deleted pod; and that pods have their claims.
func (f *follower) checkClaims(v invariant.View, e *finalState) error {
	there := map[string]bool{}
	mounted := map[string]*podRecord{}
	for _, p := range e.all {
		for _, volume := range p.now().pod.Spec.Volumes {
			if volume.PersistentVolumeClaim != nil {
				mounted[volume.PersistentVolumeClaim.ClaimName] = p
			}
		}
	}
	for _, o := range v.List(claimsResource) {
		if o.GetNamespace() != f.owner.Namespace {
			continue
		}
		there[o.GetName()] = o.GetDeletionTimestamp() == nil
		id := o.GetLabels()[kruise.LabelInstanceID]
		if by := mounted[o.GetName()]; by != nil && id != "" && by.now().pod.Labels[kruise.LabelInstanceID] == id && there[o.GetName()] && metav1.GetControllerOfNoCopy(o) == nil {
			return fmt.Errorf("claim %s of %s has no controller", o.GetName(), by.name)
		}
		if f.owns(o) != e.record.uid || o.GetDeletionTimestamp() != nil {
			continue
		}
		p := f.last[o.GetLabels()[kruise.LabelInstanceID]]
		switch {
		case p != nil && !p.now().gone:
		case e.record.set.Spec.ScaleStrategy.DisablePVCReuse:
			return fmt.Errorf("claim %s is left, its pod is deleted, and claims are not reused", o.GetName())
		case p != nil && p.removed:
			return fmt.Errorf("claim %s is left, and a controller deleted its pod %s", o.GetName(), p.name)
		}
	}
	for _, p := range e.all {
		for _, volume := range p.now().pod.Spec.Volumes {
			if volume.PersistentVolumeClaim == nil || there[volume.PersistentVolumeClaim.ClaimName] {
				continue
			}
			if n, ok := f.unclaimed[volume.PersistentVolumeClaim.ClaimName]; ok && n > p.owned {
				return fmt.Errorf("%s runs, and a controller deleted its claim %s at step %d", p.name, volume.PersistentVolumeClaim.ClaimName, n)
			}
			_, going := there[volume.PersistentVolumeClaim.ClaimName]
			if p.now().pod.Spec.NodeName == "" && p.now().state != kruise.StatePreparingDelete && !going && strings.HasSuffix(volume.PersistentVolumeClaim.ClaimName, "-"+p.name) {
				return fmt.Errorf("%s waits for a node, and its claim %s does not exist", p.name, volume.PersistentVolumeClaim.ClaimName)
			}
		}
	}
	return nil
}

// checkRevisions checks that no more old revisions exist than revisionHistoryLimit.
func (f *follower) checkRevisions(v invariant.View, e *finalState) error {
	status := &e.record.set.Status
	used := map[string]bool{status.UpdateRevision: true, status.CurrentRevision: true}
	for _, p := range f.of(e.record.uid) {
		if now := p.now(); !now.gone {
			used[now.pod.Labels[kruise.LabelRevision]] = true
		}
	}
	var unused []string
	newest := false
	for _, o := range v.List(revisionsResource) {
		if o.GetNamespace() != f.owner.Namespace || f.owns(o) != e.record.uid || o.GetDeletionTimestamp() != nil {
			continue
		}
		newest = newest || o.GetName() == status.UpdateRevision
		if !used[o.GetName()] {
			unused = append(unused, o.GetName())
		}
	}
	limit := 10
	if l := e.record.set.Spec.RevisionHistoryLimit; l != nil {
		limit = int(*l)
	}
	switch {
	case len(unused) > limit:
		return fmt.Errorf("%d unused revisions exist (%s), and at most %d may", len(unused), strings.Join(unused, ", "), limit)
	case !newest:
		return fmt.Errorf("the update revision %q does not exist", status.UpdateRevision)
	}
	return nil
}
