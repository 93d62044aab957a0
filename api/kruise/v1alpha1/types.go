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

// CloneSetSpec is what is wanted.
type CloneSetSpec struct {
	// Replicas is how many pods there are to be (1).
	Replicas *int32 `json:"replicas,omitempty"`
	// Selector finds the pods; the template's labels must match it. It never changes.
	Selector *metav1.LabelSelector `json:"selector"`
	// Template is what pods are made of.
	Template corev1.PodTemplateSpec `json:"template"`
	// VolumeClaimTemplates are claims that each pod gets for itself.
	VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`
	ScaleStrategy        CloneSetScaleStrategy          `json:"scaleStrategy,omitempty"`
	UpdateStrategy       CloneSetUpdateStrategy         `json:"updateStrategy,omitempty"`
	// RevisionHistoryLimit is how many revisions are kept that nothing uses (10).
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// MinReadySeconds is how long a pod is ready before it is available, in seconds (0).
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
	// ProgressDeadlineSeconds is how long an update may go without progress before the
	// condition Progressing says so, in seconds. Without it, or with 2147483647, there is no
	// such condition.
	ProgressDeadlineSeconds *int32            `json:"progressDeadlineSeconds,omitempty"`
	Lifecycle               *kruise.Lifecycle `json:"lifecycle,omitempty"`
}

// CloneSetScaleStrategy says how pods are added and taken away.
type CloneSetScaleStrategy struct {
	// PodsToDelete are names of pods to delete. Names of pods that are gone are taken out
	// of the list.
	PodsToDelete []string `json:"podsToDelete,omitempty"`
	// MaxUnavailable is how many pods may be unavailable while pods are added: a number, or
	// a percentage of replicas, rounded up. Without it there is no limit.
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// DisablePVCReuse has the claims of a pod that somebody else deleted go with it. Else the
	// next pod takes them, and the pod's name.
	DisablePVCReuse bool `json:"disablePVCReuse,omitempty"`
}

// CloneSetUpdateStrategyType says how pods come to a new template.
type CloneSetUpdateStrategyType string

// The types of update.
const (
	// ReCreate deletes pods and makes new ones.
	ReCreate CloneSetUpdateStrategyType = "ReCreate"
	// InPlaceIfPossible changes pods where the API allows it, and else does as ReCreate.
	InPlaceIfPossible CloneSetUpdateStrategyType = "InPlaceIfPossible"
	// InPlaceOnly changes pods; templates that pods cannot be changed to are refused.
	InPlaceOnly CloneSetUpdateStrategyType = "InPlaceOnly"
	// OnDelete leaves pods alone until somebody else deletes them.
	OnDelete CloneSetUpdateStrategyType = "OnDelete"
)

// CloneSetUpdateStrategy says how pods come to a new template.
type CloneSetUpdateStrategy struct {
	Type CloneSetUpdateStrategyType `json:"type,omitempty"`
	// Partition is how many pods keep the old template: a number, or a percentage of
	// replicas, rounded up (0).
	Partition *intstr.IntOrString `json:"partition,omitempty"`
	// MaxUnavailable is how many pods may be unavailable: a number, or a percentage of
	// replicas, rounded up, or down if MaxSurge is more than 0 (20%).
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MaxSurge is how many pods there may be beyond replicas: a number, or a percentage of
	// replicas, rounded up (0).
	MaxSurge              *intstr.IntOrString            `json:"maxSurge,omitempty"`
	Paused                bool                           `json:"paused,omitempty"`
	PriorityStrategy      *kruise.UpdatePriorityStrategy `json:"priorityStrategy,omitempty"`
	ScatterStrategy       []kruise.UpdateScatterTerm     `json:"scatterStrategy,omitempty"`
	InPlaceUpdateStrategy *kruise.InPlaceUpdateStrategy  `json:"inPlaceUpdateStrategy,omitempty"`
}

// CloneSetStatus is what there is. Pods that have finished or are being deleted count
// nowhere.
type CloneSetStatus struct {
	ObservedGeneration       int64 `json:"observedGeneration,omitempty"`
	Replicas                 int32 `json:"replicas"`
	ReadyReplicas            int32 `json:"readyReplicas"`
	AvailableReplicas        int32 `json:"availableReplicas"`
	UpdatedReplicas          int32 `json:"updatedReplicas"`
	UpdatedReadyReplicas     int32 `json:"updatedReadyReplicas"`
	UpdatedAvailableReplicas int32 `json:"updatedAvailableReplicas,omitempty"`
	// ExpectedUpdatedReplicas is replicas less partition.
	ExpectedUpdatedReplicas int32 `json:"expectedUpdatedReplicas,omitempty"`
	// UpdateRevision is the name of the ControllerRevision of the template, CurrentRevision
	// of the one that pods below the partition have.
	UpdateRevision  string `json:"updateRevision,omitempty"`
	CurrentRevision string `json:"currentRevision,omitempty"`
	// CollisionCount is how often the name of a revision was another's already.
	CollisionCount *int32              `json:"collisionCount,omitempty"`
	Conditions     []CloneSetCondition `json:"conditions,omitempty"`
	// LabelSelector is the selector as text, for the subresource scale.
	LabelSelector string `json:"labelSelector,omitempty"`
}

// CloneSetConditionType names a condition.
type CloneSetConditionType string

// The conditions.
const (
	// FailedScale: pods or claims could not be made or deleted.
	FailedScale CloneSetConditionType = "FailedScale"
	// FailedUpdate: pods could not be updated.
	FailedUpdate CloneSetConditionType = "FailedUpdate"
	// Progressing is how an update goes, where there is a deadline.
	Progressing CloneSetConditionType = "Progressing"
)

// Reasons of the condition Progressing.
const (
	// ReasonAvailable: all pods are updated and available.
	ReasonAvailable = "CloneSetAvailable"
	// ReasonPartitionAvailable: as many as are to be updated are, and available.
	ReasonPartitionAvailable = "ProgressPartitionAvailable"
	// ReasonUpdated: the update goes on.
	ReasonUpdated = "CloneSetUpdated"
	// ReasonPaused: it is paused.
	ReasonPaused = "CloneSetPaused"
	// ReasonDeadlineExceeded: nothing has moved for longer than the deadline; the status
	// is False.
	ReasonDeadlineExceeded = "ProgressDeadlineExceeded"
)

// CloneSetCondition is one condition.
type CloneSetCondition struct {
	Type   CloneSetConditionType  `json:"type"`
	Status corev1.ConditionStatus `json:"status"`
	// LastUpdateTime is, of Progressing, when something moved.
	LastUpdateTime     metav1.Time `json:"lastUpdateTime,omitempty"`
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	Reason             string      `json:"reason,omitempty"`
	Message            string      `json:"message,omitempty"`
}
