package cloneset

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/workload"
)

func ownedBy(set *v1alpha1.CloneSet) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(set, kind)}
}

// claimsOf returns the claims of one pod.
func (p *plan) claimsOf(instance string) (claims []*Claim) {
	if instance == "" || len(p.Claims) == 0 {
		return nil
	}
	if p.claimsBy == nil {
		p.claimsBy = map[string][]*Claim{}
		for _, c := range p.Claims {
			p.claimsBy[c.Instance] = append(p.claimsBy[c.Instance], c)
		}
	}
	return slices.Clone(p.claimsBy[instance])
}

// claimOf returns the claim with a name, nil if it does not exist.
func (p *plan) claimOf(name string) *Claim {
	i, ok := slices.BinarySearchFunc(p.Claims, name, func(c *Claim, name string) int { return strings.Compare(c.Name, name) })
	if !ok {
		return nil
	}
	return p.Claims[i]
}

// claimTemplates returns the set's current claim templates and, of those at the time when a revision was
// created, the ones that the revision's containers mount and that the set does not have any more.
func (p *plan) claimTemplates(from *Revision) []corev1.PersistentVolumeClaim {
	templates := p.set.Spec.VolumeClaimTemplates
	if len(from.Claims) == 0 {
		return templates
	}
	known := map[string]bool{}
	for i := range templates {
		known[templates[i].Name] = true
	}
	for i := range from.Template.Spec.Volumes {
		known[from.Template.Spec.Volumes[i].Name] = true
	}
	templates = slices.Clone(templates)
	for _, all := range [][]corev1.Container{from.Template.Spec.InitContainers, from.Template.Spec.Containers} {
		for i := range all {
			for _, mount := range all[i].VolumeMounts {
				k := slices.IndexFunc(from.Claims, func(c corev1.PersistentVolumeClaim) bool { return c.Name == mount.Name })
				if k >= 0 && !known[mount.Name] {
					known[mount.Name] = true
					templates = append(templates, from.Claims[k])
				}
			}
		}
	}
	return templates
}

func (p *plan) claimFrom(template *corev1.PersistentVolumeClaim, instance string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{Spec: *template.Spec.DeepCopy()}
	c.Namespace, c.Name = p.set.Namespace, claimName(template.Name, p.set.Name, instance)
	c.Labels, c.Annotations = maps.Clone(template.Labels), maps.Clone(template.Annotations)
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	if s := p.set.Spec.Selector; s != nil {
		maps.Copy(c.Labels, s.MatchLabels)
	}
	c.Labels[kruise.LabelInstanceID] = instance
	c.OwnerReferences = ownedBy(p.set)
	return c
}

// mountClaims replaces the pod's volumes that have the names of claim templates by volumes of its claims.
func (p *plan) mountClaims(spec *corev1.PodSpec, from *Revision, instance string) {
	for _, t := range p.claimTemplates(from) {
		volume := corev1.Volume{Name: t.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(t.Name, p.set.Name, instance)},
		}}
		if i := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == t.Name }); i >= 0 {
			spec.Volumes[i] = volume
		} else {
			spec.Volumes = append(spec.Volumes, volume)
		}
	}
}

// object returns the part of the claim that a write needs.
func (c *Claim) object() *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name, UID: c.UID, ResourceVersion: c.ResourceVersion}}
}

// markClaim sets the label that a claim is deleted with its pod, or with null removes the label.
func (p *plan) markClaim(c *Claim, mark, why string) {
	p.decision.Act(workload.Action{
		Verb: workload.Patch, Object: c.object(), PatchType: types.MergePatchType, Exact: true,
		Patch:  json.RawMessage(fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, kruise.LabelSpecifiedDelete, mark)),
		Reason: workload.Reason{Code: "Marked", Text: why},
	})
}

// repairClaims creates missing claims again, for pods that have no node yet: a claim may have been deleted
// before its pod protected it, and the scheduler does not bind a pod without its claims. A claim that is still
// terminating is waited for.
func (p *plan) repairClaims() {
	for i := range p.units {
		u := &p.units[i]
		if len(u.Claims) == 0 || u.acted || u.specified || u.state == kruise.StatePreparingDelete {
			continue
		}
		from := u.of
		if from == nil {
			from = p.updateRevision
		}
		templates := p.claimTemplates(from)
		for i := range templates {
			c := p.claimFrom(&templates[i], u.instance)
			if !slices.Contains(u.Claims, c.Name) || p.claimOf(c.Name) != nil || p.Past.Taken[c.Name] || len(p.decision.Actions) >= 4*p.Limits.Pods {
				continue
			}
			p.decision.Act(workload.Action{Verb: workload.Create, Object: c, Reason: workload.Reason{Code: "SuccessfulCreate", Text: "pod " + u.Name + " waits for it"}})
		}
	}
}

// tidyClaims deletes claims whose pod is gone or terminating: those that were marked with it, and all without
// a pod if claims are not reused. The claims of a pod that stays after all, because its mark was removed, lose
// theirs.
func (p *plan) tidyClaims() {
	if len(p.Claims) == 0 {
		return
	}
	pods := make(map[string]*Pod, len(p.Pods))
	for _, pod := range p.Pods {
		pods[pod.instance] = pod
	}
	for _, c := range p.Claims {
		if len(p.decision.Actions) >= 4*p.Limits.Pods {
			return // the next plan continues
		}
		pod := pods[c.Instance]
		switch {
		case c.Terminating:
		case pod == nil && (c.Marked || p.set.Spec.ScaleStrategy.DisablePVCReuse):
			p.deleteClaim(c, "its pod is gone")
		case pod == nil || !c.Marked:
		case pod.Terminating:
			p.deleteClaim(c, "its pod "+pod.Name+" is deleted")
		case pod.active && !pod.marked:
			p.markClaim(c, "null", "its pod "+pod.Name+" stays")
		}
	}
}

func (p *plan) deleteClaim(c *Claim, why string) {
	p.decision.Act(workload.Action{Verb: workload.Delete, Object: c.object(), Reason: workload.Reason{Code: "SuccessfulDelete", Text: why}})
}

// tidyNames removes names from podsToDelete whose pods are gone. It is a separate write to the set, with the
// observed resourceVersion as a precondition.
func (p *plan) tidyNames() {
	names := p.set.Spec.ScaleStrategy.PodsToDelete
	left := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !p.hasPodNamed(name) })
	if len(left) == len(names) || p.decision.Status != nil {
		return
	}
	list, err := json.Marshal(left)
	if err != nil {
		panic(err) // strings can always be encoded
	}
	p.decision.Act(workload.Action{
		Verb: workload.Patch, Object: p.set, PatchType: types.MergePatchType, Exact: true,
		Patch:  json.RawMessage(fmt.Appendf(nil, `{"metadata":{},"spec":{"scaleStrategy":{"podsToDelete":%s}}}`, list)),
		Reason: workload.Reason{Code: "Truncated", Text: "pods of podsToDelete are gone"},
	})
}
