package kruise

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InPlaceUpdateState is the value of AnnotationInPlaceState: the state of a pod before its in-place update,
// which shows when the update is complete.
type InPlaceUpdateState struct {
	// Revision is the name of the ControllerRevision that the pod is updated to.
	Revision        string      `json:"revision"`
	UpdateTimestamp metav1.Time `json:"updateTimestamp"`
	// LastContainerStatuses are the statuses of the changed containers.
	LastContainerStatuses map[string]InPlaceContainerStatus `json:"lastContainerStatuses"`

	// PreparingNormal is our own field: the pod had not been Normal yet when its update began.
	PreparingNormal bool `json:"preparingNormal,omitempty"`
	// KeepsTraffic is our own field: only cpu or memory change, without a restart, and the pod stays ready.
	KeepsTraffic bool `json:"keepsTraffic,omitempty"`

	UpdateEnvFromMetadata bool `json:"updateEnvFromMetadata,omitempty"`
	UpdateResources       bool `json:"updateResources,omitempty"`
	UpdateImages          bool `json:"updateImages,omitempty"`

	// The changes of containers with a lower launch priority, which wait for those with a higher one.
	NextContainerImages      map[string]string                      `json:"nextContainerImages,omitempty"`
	NextContainerRefMetadata map[string]metav1.ObjectMeta           `json:"nextContainerRefMetadata,omitempty"`
	NextContainerResources   map[string]corev1.ResourceRequirements `json:"nextContainerResources,omitempty"`
	PreCheckBeforeNext       *InPlacePreCheck                       `json:"preCheckBeforeNext,omitempty"`
	ContainerBatchesRecord   []InPlaceContainerBatch                `json:"containerBatchesRecord,omitempty"`
}

// InPlaceContainerStatus is the status of a container before its update.
type InPlaceContainerStatus struct {
	ImageID string `json:"imageID,omitempty"`
	// ContainerID is our own field: a restarted container has another ID, even if its image and image ID are
	// the same.
	ContainerID string `json:"containerID,omitempty"`
	// Image and KeepsImage are our own fields. Image is the image in the container's status. KeepsImage: the
	// resources or the environment of the container change, not its image.
	Image      string `json:"image,omitempty"`
	KeepsImage bool   `json:"keepsImage,omitempty"`
}

// InPlacePreCheck is the condition for the update of the next containers.
type InPlacePreCheck struct {
	ContainersRequiredReady []string `json:"containersRequiredReady,omitempty"`
}

// InPlaceContainerBatch are containers that were updated together.
type InPlaceContainerBatch struct {
	Timestamp  metav1.Time `json:"timestamp"`
	Containers []string    `json:"containers"`
}

// InPlaceUpdateSpec is the value of AnnotationInPlaceGrace: a change of the pod that waits for the end of the
// grace period.
type InPlaceUpdateSpec struct {
	// Revision is the name of the target ControllerRevision.
	Revision        string            `json:"revision"`
	ContainerImages map[string]string `json:"containerImages,omitempty"`
	// ContainerResources are the new requests and limits of containers.
	ContainerResources map[string]corev1.ResourceRequirements `json:"containerResources,omitempty"`
	// MetaDataPatch is a strategic merge patch of the pod's metadata.
	MetaDataPatch         []byte `json:"metaDataPatch,omitempty"`
	UpdateEnvFromMetadata bool   `json:"updateEnvFromMetadata,omitempty"`
	GraceSeconds          int32  `json:"graceSeconds,omitempty"`
}

// NotReadyMessage is one entry of the list in the message of ConditionPodReady: the agent that keeps the pod
// from traffic, and the reason.
type NotReadyMessage struct {
	UserAgent string `json:"userAgent"`
	Key       string `json:"key"`
}
