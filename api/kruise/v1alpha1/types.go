package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/rehearse-k8s/rehearse/api/kruise"
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

// CloneSetSpec is the desired state of a CloneSet.
type CloneSetSpec struct {
	// Replicas is the desired number of pods (default 1).
	Replicas *int32 `json:"replicas,omitempty"`
	// Selector selects the pods; the template's labels must match it. It is immutable.
	Selector *metav1.LabelSelector `json:"selector"`
	// Template is the template of the pods.
	Template corev1.PodTemplateSpec `json:"template"`
	// VolumeClaimTemplates are templates of the claims that each pod gets.
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`
	ScaleStrategy        CloneSetScaleStrategy          `json:"scaleStrategy,omitempty"`
	UpdateStrategy       CloneSetUpdateStrategy         `json:"updateStrategy,omitempty"`
	// RevisionHistoryLimit is the number of unused revisions to keep (default 10).
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// MinReadySeconds is how long a pod must be ready before it counts as available, in seconds (default 0).
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
	// ProgressDeadlineSeconds is how long an update may take without progress before the condition
	// Progressing reports it, in seconds. If it is absent or 2147483647, the condition does not exist.
	ProgressDeadlineSeconds *int32            `json:"progressDeadlineSeconds,omitempty"`
	Lifecycle               *kruise.Lifecycle `json:"lifecycle,omitempty"`
}

// CloneSetScaleStrategy configures how pods are added and removed.
type CloneSetScaleStrategy struct {
	// PodsToDelete are names of pods to delete. The controller removes the names of pods that are gone.
	PodsToDelete []string `json:"podsToDelete,omitempty"`
	// MaxUnavailable limits the unavailable pods while pods are added: a number, or a percentage of replicas,
	// rounded up. If it is absent, there is no limit.
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// DisablePVCReuse: if another actor deletes a pod, its claims are deleted, too. Otherwise the next pod
	// reuses the claims and the pod's name.
	DisablePVCReuse bool `json:"disablePVCReuse,omitempty"`
}

// CloneSetUpdateStrategyType is how pods are updated to a new template.
type CloneSetUpdateStrategyType string

// The types of update.
const (
	// ReCreate deletes pods and creates new ones.
	ReCreate CloneSetUpdateStrategyType = "ReCreate"
	// InPlaceIfPossible updates pods in place where the API allows it, and otherwise recreates them.
	InPlaceIfPossible CloneSetUpdateStrategyType = "InPlaceIfPossible"
	// InPlaceOnly updates pods in place. A template that requires recreation is rejected.
	InPlaceOnly CloneSetUpdateStrategyType = "InPlaceOnly"
	// OnDelete updates a pod only when another actor deletes it.
	OnDelete CloneSetUpdateStrategyType = "OnDelete"
)

// CloneSetUpdateStrategy configures how pods are updated to a new template.
type CloneSetUpdateStrategy struct {
	Type CloneSetUpdateStrategyType `json:"type,omitempty"`
	// Partition is the number of pods that keep the old template: a number, or a percentage of replicas,
	// rounded up (default 0).
	Partition *intstr.IntOrString `json:"partition,omitempty"`
	// MaxUnavailable limits the unavailable pods: a number, or a percentage of replicas, rounded up, or down
	// if MaxSurge is more than 0 (default 20%).
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MaxSurge limits the pods in excess of replicas: a number, or a percentage of replicas, rounded up
	// (default 0).
	MaxSurge              *intstr.IntOrString            `json:"maxSurge,omitempty"`
	Paused                bool                           `json:"paused,omitempty"`
	PriorityStrategy      *kruise.UpdatePriorityStrategy `json:"priorityStrategy,omitempty"`
	ScatterStrategy       []kruise.UpdateScatterTerm     `json:"scatterStrategy,omitempty"`
	InPlaceUpdateStrategy *kruise.InPlaceUpdateStrategy  `json:"inPlaceUpdateStrategy,omitempty"`
}

// CloneSetStatus is the observed state. Finished and terminating pods are not counted.
type CloneSetStatus struct {
	ObservedGeneration       int64 `json:"observedGeneration,omitempty"`
	Replicas                 int32 `json:"replicas"`
	ReadyReplicas            int32 `json:"readyReplicas"`
	AvailableReplicas        int32 `json:"availableReplicas"`
	UpdatedReplicas          int32 `json:"updatedReplicas"`
	UpdatedReadyReplicas     int32 `json:"updatedReadyReplicas"`
	UpdatedAvailableReplicas int32 `json:"updatedAvailableReplicas,omitempty"`
	// ExpectedUpdatedReplicas is replicas minus partition.
	ExpectedUpdatedReplicas int32 `json:"expectedUpdatedReplicas,omitempty"`
	// UpdateRevision is the name of the ControllerRevision of the template, CurrentRevision that of the pods
	// below the partition.
	UpdateRevision  string `json:"updateRevision,omitempty"`
	CurrentRevision string `json:"currentRevision,omitempty"`
	// CollisionCount is how often the name of a new revision was already in use.
	CollisionCount *int32              `json:"collisionCount,omitempty"`
	Conditions     []CloneSetCondition `json:"conditions,omitempty"`
	// LabelSelector is the selector as text, for the scale subresource.
	LabelSelector string `json:"labelSelector,omitempty"`
}

// CloneSetConditionType is the type of a condition.
type CloneSetConditionType string

// The conditions.
const (
	// FailedScale: pods or claims could not be created or deleted.
	FailedScale CloneSetConditionType = "FailedScale"
	// FailedUpdate: pods could not be updated.
	FailedUpdate CloneSetConditionType = "FailedUpdate"
	// Progressing is the progress of an update, if there is a deadline.
	Progressing CloneSetConditionType = "Progressing"
)

// Reasons of the condition Progressing.
const (
	// ReasonAvailable: all pods are updated and available.
	ReasonAvailable = "CloneSetAvailable"
	// ReasonPartitionAvailable: the partition is reached, and all pods are available.
	ReasonPartitionAvailable = "ProgressPartitionAvailable"
	// ReasonUpdated: the update goes on.
	ReasonUpdated = "CloneSetUpdated"
	// ReasonPaused: the update is paused.
	ReasonPaused = "CloneSetPaused"
	// ReasonDeadlineExceeded: there was no progress for longer than the deadline; the status is False.
	ReasonDeadlineExceeded = "ProgressDeadlineExceeded"
)

// CloneSetCondition is one condition.
type CloneSetCondition struct {
	Type   CloneSetConditionType  `json:"type"`
	Status corev1.ConditionStatus `json:"status"`
	// LastUpdateTime is, of Progressing, the time of the last progress.
	LastUpdateTime     metav1.Time `json:"lastUpdateTime,omitempty"`
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	Reason             string      `json:"reason,omitempty"`
	Message            string      `json:"message,omitempty"`
}
