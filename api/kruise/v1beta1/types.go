package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
)

// What is the same in both versions.
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

// CloneSetSpec is what is wanted. Its fields are v1alpha1's but for the two strategies.
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

// CloneSetScaleStrategy says how pods are added and taken away. Its two bools have no
// omitempty: false is what EnablePVCReuse is by default here, and true what it is in
// v1alpha1, so it is always said.
type CloneSetScaleStrategy struct {
	PodsToDelete   []string            `json:"podsToDelete,omitempty"`
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// EnablePVCReuse has the next pod take the claims, and the name, of one that somebody
	// else deleted. Else the claims go with it.
	EnablePVCReuse bool `json:"enablePVCReuse"`
	// ExcludePreparingDelete has pods that wait for their preDelete hook not counted as
	// replicas. In v1alpha1 it is a label.
	ExcludePreparingDelete bool `json:"excludePreparingDelete"`
}

// CloneSetUpdateStrategyType says whether pods come to a new template by themselves.
type CloneSetUpdateStrategyType string

// The types of update.
const (
	// RollingUpdate brings pods to the new template, as the block rollingUpdate says.
	RollingUpdate CloneSetUpdateStrategyType = "RollingUpdate"
	// OnDelete leaves pods alone until somebody else deletes them.
	OnDelete CloneSetUpdateStrategyType = "OnDelete"
)

// CloneSetUpdateStrategy says how pods come to a new template.
type CloneSetUpdateStrategy struct {
	Type          CloneSetUpdateStrategyType     `json:"type,omitempty"`
	RollingUpdate *RollingUpdateCloneSetStrategy `json:"rollingUpdate,omitempty"`
}

// CloneSetPodUpdatePolicyType says how one pod comes to a new template.
type CloneSetPodUpdatePolicyType string

// The policies; v1alpha1 has the same words as types of update.
const (
	ReCreate          CloneSetPodUpdatePolicyType = "ReCreate"
	InPlaceIfPossible CloneSetPodUpdatePolicyType = "InPlaceIfPossible"
	InPlaceOnly       CloneSetPodUpdatePolicyType = "InPlaceOnly"
)

// RollingUpdateCloneSetStrategy are the details of RollingUpdate, as in v1alpha1.
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
