package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
)

// The types that are the same in both versions.
type (
	CloneSetStatus        = v1alpha1.CloneSetStatus
	CloneSetCondition     = v1alpha1.CloneSetCondition
	CloneSetConditionType = v1alpha1.CloneSetConditionType
)

// CloneSet keeps a number of pods that are made of one template.
//
// +kubebuilder:object:root=true
type CloneSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   CloneSetSpec   `json:"spec,omitempty"`
	Status CloneSetStatus `json:"status,omitempty"`
}

// CloneSetList is a list of CloneSets.
//
// +kubebuilder:object:root=true
type CloneSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CloneSet `json:"items"`
}

// CloneSetSpec is the desired state of a CloneSet. Its fields are v1alpha1's except the two strategies.
type CloneSetSpec struct {
	Replicas                *int32                         `json:"replicas,omitempty"`
	Selector                *metav1.LabelSelector          `json:"selector"`
	Template                corev1.PodTemplateSpec         `json:"template"`
	VolumeClaimTemplates    []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`
	ScaleStrategy           CloneSetScaleStrategy          `json:"scaleStrategy,omitempty"`
	UpdateStrategy          CloneSetUpdateStrategy         `json:"updateStrategy,omitempty"`
	RevisionHistoryLimit    *int32                         `json:"revisionHistoryLimit,omitempty"`
	MinReadySeconds         int32                          `json:"minReadySeconds,omitempty"`
	ProgressDeadlineSeconds *int32                         `json:"progressDeadlineSeconds,omitempty"`
	Lifecycle               *kruise.Lifecycle              `json:"lifecycle,omitempty"`
}

// CloneSetScaleStrategy configures how pods are added and removed. Its two bools have no omitempty: the
// default of EnablePVCReuse is false here, and the corresponding default of v1alpha1 is true, so the value is
// always explicit.
type CloneSetScaleStrategy struct {
	PodsToDelete   []string            `json:"podsToDelete,omitempty"`
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// EnablePVCReuse: if another actor deletes a pod, the next pod reuses its claims and its name. Otherwise
	// the claims are deleted, too.
	EnablePVCReuse bool `json:"enablePVCReuse"`
	// ExcludePreparingDelete: pods that wait for their preDelete hook do not count as replicas. In v1alpha1
	// it is a label.
	ExcludePreparingDelete bool `json:"excludePreparingDelete"`
}

// CloneSetUpdateStrategyType is whether the controller updates pods to a new template.
type CloneSetUpdateStrategyType string

// The types of update.
const (
	// RollingUpdate updates pods as the field rollingUpdate configures.
	RollingUpdate CloneSetUpdateStrategyType = "RollingUpdate"
	// OnDelete updates a pod only when another actor deletes it.
	OnDelete CloneSetUpdateStrategyType = "OnDelete"
)

// CloneSetUpdateStrategy configures how pods are updated to a new template.
type CloneSetUpdateStrategy struct {
	Type          CloneSetUpdateStrategyType     `json:"type,omitempty"`
	RollingUpdate *RollingUpdateCloneSetStrategy `json:"rollingUpdate,omitempty"`
}

// CloneSetPodUpdatePolicyType is how one pod is updated to a new template.
type CloneSetPodUpdatePolicyType string

// The policies. v1alpha1 has update types of the same names.
const (
	ReCreate          CloneSetPodUpdatePolicyType = "ReCreate"
	InPlaceIfPossible CloneSetPodUpdatePolicyType = "InPlaceIfPossible"
	InPlaceOnly       CloneSetPodUpdatePolicyType = "InPlaceOnly"
)

// RollingUpdateCloneSetStrategy configures RollingUpdate, as in v1alpha1.
type RollingUpdateCloneSetStrategy struct {
	PodUpdatePolicy       CloneSetPodUpdatePolicyType    `json:"podUpdatePolicy,omitempty"`
	Partition             *intstr.IntOrString            `json:"partition,omitempty"`
	MaxUnavailable        *intstr.IntOrString            `json:"maxUnavailable,omitempty"`
	MaxSurge              *intstr.IntOrString            `json:"maxSurge,omitempty"`
	Paused                bool                           `json:"paused,omitempty"`
	PriorityStrategy      *kruise.UpdatePriorityStrategy `json:"priorityStrategy,omitempty"`
	ScatterStrategy       []kruise.UpdateScatterTerm     `json:"scatterStrategy,omitempty"`
	InPlaceUpdateStrategy *kruise.InPlaceUpdateStrategy  `json:"inPlaceUpdateStrategy,omitempty"`
}
