package cloneset

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/internal/workload"
)

// patch is a strategic merge patch of a pod. A nil value of a map deletes the key.
type patch struct {
	Metadata patchMetadata `json:"metadata"`
	Spec     *patchSpec    `json:"spec,omitempty"`
	Status   *patchStatus  `json:"status,omitempty"`
}

type patchMetadata struct {
	Labels          map[string]*string `json:"labels,omitempty"`
	Annotations     map[string]any     `json:"annotations,omitempty"` // nil, a string, or a text
	Finalizers      []string           `json:"finalizers,omitempty"`
	OwnerReferences []any              `json:"ownerReferences,omitempty"`
}

type patchSpec struct {
	Containers []patchContainer `json:"containers,omitempty"`
}

type patchContainer struct {
	Name      string                       `json:"name"`
	Image     string                       `json:"image,omitempty"`
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
}

type patchStatus struct {
	Conditions []patchCondition `json:"conditions,omitempty"`
}

// patchCondition is a corev1.PodCondition that says that there is no message, or no reason:
// that one's are left out of a patch when they are empty, and what was there before would
// stay.
type patchCondition struct {
	Type               corev1.PodConditionType `json:"type"`
	Status             corev1.ConditionStatus  `json:"status"`
	Reason             string                  `json:"reason"`
	Message            string                  `json:"message"`
	LastTransitionTime metav1.Time             `json:"lastTransitionTime"`
}

// MarshalJSON implements json.Marshaler: patches are encoded when they are sent.
func (b patch) MarshalJSON() ([]byte, error) {
	type plain patch
	return json.Marshal(plain(b))
}

// text is an annotation that holds JSON.
type text struct{ of any }

// MarshalJSON implements json.Marshaler.
func (t text) MarshalJSON() ([]byte, error) {
	inner, err := json.Marshal(t.of)
	if err != nil {
		return nil, err
	}
	return json.Marshal(string(inner))
}

// write is the action of a patch. Labels and annotations ride along on the status, so that
// a step of a pod's life is one write; finalizers and owners do not.
func (b patch) write(u *unit, code, why string) workload.Action {
	a := workload.Action{
		Verb: workload.Patch, Object: u.object(), PatchType: types.StrategicMergePatchType, Patch: b, Exact: true,
		Reason: workload.Reason{Code: code, Text: why},
	}
	if b.Status != nil {
		a.Subresource = "status"
	}
	return a
}

// patch decides the only write of this plan to a pod. The write names the observed resourceVersion: an API server may
// commit it seconds after it answered 504, and then it must not land in the middle of the pod's next update. The
// exception is the first transition of a pod without lifecycle hooks. The kubelet starts the pod at the same time, so that
// most of these writes would conflict; finishGrace corrects one that commits late.
func (p *plan) patch(u *unit, b patch, code, why string) {
	u.acted = true
	a := b.write(u, code, why)
	a.Exact = p.set.Spec.Lifecycle != nil || u.state != kruise.StatePreparingNormal || b.Metadata.OwnerReferences != nil
	p.decision.Act(a)
}
