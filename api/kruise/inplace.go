package kruise

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InPlaceUpdateState is the value of AnnotationInPlaceState: what a pod was like when its
// update in place began, so that its end can be seen.
type InPlaceUpdateState struct {
	// Revision is the name of the ControllerRevision that the pod is updated to.
	Revision        string      `json:"revision"`
	UpdateTimestamp metav1.Time `json:"updateTimestamp"`
	// LastContainerStatuses are those of the containers that are changed.
	LastContainerStatuses map[string]InPlaceContainerStatus `json:"lastContainerStatuses"`

	// PreparingNormal is ours: the pod had not been Normal yet when its update began.
	PreparingNormal bool `json:"preparingNormal,omitempty"`
	// KeepsTraffic is ours: only cpu or memory change, without a restart, and the pod stays
	// ready meanwhile.
	KeepsTraffic bool `json:"keepsTraffic,omitempty"`

	UpdateEnvFromMetadata bool `json:"updateEnvFromMetadata,omitempty"`
	UpdateResources       bool `json:"updateResources,omitempty"`
	UpdateImages          bool `json:"updateImages,omitempty"`

	// The changes of containers with a lower launch priority, which wait for those before
	// them.
	NextContainerImages      map[string]string                      `json:"nextContainerImages,omitempty"`
	NextContainerRefMetadata map[string]metav1.ObjectMeta           `json:"nextContainerRefMetadata,omitempty"`
	NextContainerResources   map[string]corev1.ResourceRequirements `json:"nextContainerResources,omitempty"`
	PreCheckBeforeNext       *InPlacePreCheck                       `json:"preCheckBeforeNext,omitempty"`
	ContainerBatchesRecord   []InPlaceContainerBatch                `json:"containerBatchesRecord,omitempty"`
}

// InPlaceContainerStatus is a container before its update.
type InPlaceContainerStatus struct {
	ImageID string `json:"imageID,omitempty"`
	// ContainerID is ours: a container that has begun anew has another one, although
	// neither its image nor its image's ID need be others.
	ContainerID string `json:"containerID,omitempty"`
	// Image is ours: the image as the status named it. KeepsImage is ours too: not the image of
	// the container is changed, but its resources or its environment.
	Image      string `json:"image,omitempty"`
	KeepsImage bool   `json:"keepsImage,omitempty"`
}

// InPlacePreCheck is what must hold before the next containers are changed.
type InPlacePreCheck struct {
	ContainersRequiredReady []string `json:"containersRequiredReady,omitempty"`
}

// InPlaceContainerBatch are containers that were changed together.
type InPlaceContainerBatch struct {
	Timestamp  metav1.Time `json:"timestamp"`
	Containers []string    `json:"containers"`
}

// InPlaceUpdateSpec is the value of AnnotationInPlaceGrace: a change that is still to be made.
type InPlaceUpdateSpec struct {
	// Revision is the name of the ControllerRevision that this leads to.
	Revision        string            `json:"revision"`
	ContainerImages map[string]string `json:"containerImages,omitempty"`
	// ContainerResources are the new requests and limits of containers.
	ContainerResources map[string]corev1.ResourceRequirements `json:"containerResources,omitempty"`
	// MetaDataPatch is a strategic merge patch of the pod's metadata.
	MetaDataPatch         []byte `json:"metaDataPatch,omitempty"`
	UpdateEnvFromMetadata bool   `json:"updateEnvFromMetadata,omitempty"`
	GraceSeconds          int32  `json:"graceSeconds,omitempty"`
}

// NotReadyMessage is one entry of the list in the message of ConditionPodReady: who keeps
// the pod from traffic, and why.
type NotReadyMessage struct {
	UserAgent string `json:"userAgent"`
	Key       string `json:"key"`
}
