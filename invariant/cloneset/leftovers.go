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

// tidyPods tells whether anything of ours is left on pods that no step of their life needs.
func (f *follower) tidyPods(e *finalState) error {
	for _, p := range f.of(e.record.uid) {
		now := p.now()
		if now.gone {
			continue
		}
		for _, finalizer := range p.added {
			if slices.Contains(now.pod.Finalizers, finalizer) && !hooksName(&e.hooks, finalizer) {
				return fmt.Errorf("a controller has put the finalizer %s on %s, and no hook has it any more", finalizer, p.name)
			}
		}
		if !now.active() {
			continue
		}
		if now.normal() && now.gated(kruise.ConditionInPlaceUpdateReady) && now.pod.Spec.NodeName != "" && now.is(kruise.ConditionInPlaceUpdateReady) != corev1.ConditionTrue {
			return fmt.Errorf("%s is Normal, and InPlaceUpdateReady is %q", p.name, now.is(kruise.ConditionInPlaceUpdateReady))
		}
		if key := now.keptBack(); key != "" {
			return fmt.Errorf("%s is %q, and the hook's key %s keeps it from traffic", p.name, now.state, key)
		}
	}
	return nil
}

// hooksName tells whether a hook has a finalizer for handler.
func hooksName(l *kruise.Lifecycle, finalizer string) bool {
	return slices.ContainsFunc([]*kruise.LifecycleHook{l.PreDelete, l.InPlaceUpdate, l.PreNormal}, func(h *kruise.LifecycleHook) bool {
		return h != nil && slices.Contains(h.FinalizersHandler, finalizer)
	})
}

// keptBack is the key of a hook that keeps a pod from traffic although the pod is in no
// step of that hook.
func (p *podVersion) keptBack() string {
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

// tidyClaims tells whether a claim is left of a pod that a controller has deleted, or,
// where claims are not used again, of any that is gone; and whether pods have their claims.
func (f *follower) tidyClaims(v invariant.View, e *finalState) error {
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
			return fmt.Errorf("claim %s is left, its pod is gone, and claims are not used again", o.GetName())
		case p != nil && p.removed:
			return fmt.Errorf("claim %s is left, and a controller has deleted its pod %s", o.GetName(), p.name)
		}
	}
	for _, p := range e.all {
		for _, volume := range p.now().pod.Spec.Volumes {
			if volume.PersistentVolumeClaim == nil || there[volume.PersistentVolumeClaim.ClaimName] {
				continue
			}
			if n, ok := f.unclaimed[volume.PersistentVolumeClaim.ClaimName]; ok && n > p.made {
				return fmt.Errorf("%s runs, and a controller deleted its claim %s at step %d", p.name, volume.PersistentVolumeClaim.ClaimName, n)
			}
			_, going := there[volume.PersistentVolumeClaim.ClaimName]
			if p.now().pod.Spec.NodeName == "" && p.now().state != kruise.StatePreparingDelete && !going && strings.HasSuffix(volume.PersistentVolumeClaim.ClaimName, "-"+p.name) {
				return fmt.Errorf("%s waits for a node, and its claim %s is gone", p.name, volume.PersistentVolumeClaim.ClaimName)
			}
		}
	}
	return nil
}

// tidyRevisions tells whether more old revisions are kept than are wanted.
func (f *follower) tidyRevisions(v invariant.View, e *finalState) error {
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
		return fmt.Errorf("%d revisions are kept that nothing uses (%s), and %d are to be", len(unused), strings.Join(unused, ", "), limit)
	case !newest:
		return fmt.Errorf("there is no revision %q, which is to be the newest", status.UpdateRevision)
	}
	return nil
}
