package cloneset

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// claimOwnership adopts orphans that match the selector and releases pods that do not. If it
// returns true, it has decided the whole plan. A change that the API has rejected before is tried
// again, but does not block the plan: the other steps run without that object.
func (p *plan) claimOwnership() bool {
	match, err := Matcher(p.set)
	if err != nil {
		p.decision.Because("BadSelector", "spec.selector cannot be read: %s; the CloneSet is left alone", err)
		return true
	}
	owner := map[string]any{
		"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind, "name": p.set.Name, "uid": p.set.UID,
		"controller": true, "blockOwnerDeletion": true,
	}
	for _, pod := range p.Orphans {
		if pod.active && pod.Controller == "" && match(pod.Labels) && !p.adoptClaims(pod, owner) {
			p.own(pod, owner, "Adopted", "the selector matches and the pod has no controller")
		}
	}
	p.adoptLateClaims(owner)
	for _, pod := range p.Pods {
		if !match(pod.Labels) {
			p.own(pod, map[string]any{"$patch": "delete", "uid": p.set.UID}, "Disowned", "the selector does not match any more")
		}
	}
	fresh := func(a workload.Action) bool { return !p.Past.Rejected[a.Object.GetUID()] }
	if slices.ContainsFunc(p.decision.Actions, fresh) {
		p.decision.Recheck = true
		return true
	}
	if len(p.decision.Actions) > 0 {
		unmatched := func(pod *Pod) bool { return !match(pod.Labels) }
		p.unadoptable = append(slices.Clone(p.Orphans), slices.DeleteFunc(slices.Clone(p.Pods), func(pod *Pod) bool { return !unmatched(pod) })...)
		p.Pods = slices.DeleteFunc(slices.Clone(p.Pods), unmatched)
	}
	return false
}

// adoptLateClaims adopts claims of pods that were adopted before the cache showed the claims. A claim
// of a pod that this set has created was released by a user and stays without a controller.
func (p *plan) adoptLateClaims(owner map[string]any) {
	if len(p.LooseClaims) == 0 {
		return
	}
	for _, pod := range p.Pods {
		if p.inherited(pod) {
			p.adoptClaims(pod, owner)
		}
	}
}

// inherited reports whether a pod was created by an earlier set of the same name: it is older than this
// set, or was created in the same second with an instance-id that this set does not assign.
func (p *plan) inherited(pod *Pod) bool {
	if began := p.set.CreationTimestamp.Time; !pod.Created.Equal(began) {
		return pod.Created.Before(began)
	}
	for slot := range len(p.Pods) + len(p.Claims) + len(p.LooseClaims) + len(p.Past.Taken) + len(p.Past.Failed) + 8 {
		if instanceID(p.set.UID, slot) == pod.instance {
			return false
		}
	}
	return true
}

// adoptClaims adopts the claims that a pod has from an earlier set of the same name, which was deleted
// without its pods. Claims are adopted before their pod, so that a crash in between leaves no claim
// without a controller. It reports whether there were any.
func (p *plan) adoptClaims(pod *Pod, owner map[string]any) (found bool) {
	for _, c := range p.LooseClaims {
		if c.Terminating || c.Instance != pod.instance || c.Instance == "" || !strings.HasSuffix(c.Name, "-"+p.set.Name+"-"+c.Instance) || len(p.decision.Actions) >= p.Limits.Pods {
			continue
		}
		found = true
		p.decision.Act(workload.Action{
			Verb: workload.Patch, Object: c.object(), PatchType: types.StrategicMergePatchType, Exact: true,
			Patch:  patch{Metadata: patchMetadata{OwnerReferences: []any{owner}}},
			Reason: workload.Reason{Code: "Adopted", Text: "it is the claim of pod " + pod.Name},
		})
	}
	return found
}

func (p *plan) own(pod *Pod, owner map[string]any, code, why string) {
	if len(p.decision.Actions) == p.Limits.Pods {
		return
	}
	u := &unit{Pod: pod}
	p.patch(u, patch{Metadata: patchMetadata{OwnerReferences: []any{owner}}}, code, why)
	p.decision.Because(code, "pod %s: %s", pod.Name, why)
}

// Matcher returns a function that reports whether labels match the set's selector. An empty selector is
// an error, because it would adopt all pods of the namespace; so is a missing one, because it would
// release all pods.
func Matcher(set *v1alpha1.CloneSet) (func(map[string]string) bool, error) {
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return nil, err
	}
	if set.Spec.Selector == nil || selector.Empty() {
		return nil, fmt.Errorf("the selector is empty")
	}
	return workload.Matcher(set.Spec.Selector)
}
