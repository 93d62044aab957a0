package cloneset

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/workload"
)

// patch is a strategic merge patch of a pod. A nil value of a map deletes the key.
type patch struct {
	Metadata patchMetadata `json:"metadata"`
	Spec     *patchSpec    `json:"spec,omitempty"`
	Status   *patchStatus  `json:"status,omitempty"`
}

type patchMetadata struct {
	Labels          map[string]*string `json:"labels,omitempty"`
	Annotations     map[string]*string `json:"annotations,omitempty"`
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
	Conditions []corev1.PodCondition `json:"conditions,omitempty"`
}

func (b patch) bytes() []byte {
	text, err := json.Marshal(b)
	if err != nil {
		panic(err) // strings and quantities
	}
	return text
}

// write is the action of a patch. Labels and annotations ride along on the status, so that
// a step of a pod's life is one write; finalizers and owners do not.
func (b patch) write(u *unit, code, why string) workload.Action {
	a := workload.Action{
		Verb: workload.Patch, Object: u.object(), PatchType: types.StrategicMergePatchType, Patch: b.bytes(), Exact: true,
		Reason: workload.Reason{Code: code, Text: why},
	}
	if b.Status != nil {
		a.Subresource = "status"
	}
	return a
}

// patch is the one thing that this plan does to a pod.
func (p *plan) patch(u *unit, b patch, code, why string) {
	u.acted = true
	p.act(b.write(u, code, why))
}
