package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Attach names the files whose new lines an attached client receives. It applies to the pod with its own namespace and name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=attaches
type Attach struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec contains the entries.
	Spec AttachSpec `json:"spec"`
	// Status is part of KWOK's definition. KWOK and rehearse never write it.
	Status KubeletStatus `json:"status,omitempty"`
}

// AttachList is a list of Attach objects.
//
// +kubebuilder:object:root=true
type AttachList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Attach `json:"items"`
}

// AttachSpec contains the entries of a Attach object.
type AttachSpec struct {
	// Attaches are the entries. An entry that names the container takes precedence over an entry without containers.
	Attaches []AttachConfig `json:"attaches"`
}

// ClusterAttach names the files whose new lines an attached client receives. It applies to the pods that its selector matches.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clusterattaches,scope=Cluster
type ClusterAttach struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec contains the entries and the selector.
	Spec ClusterAttachSpec `json:"spec"`
	// Status is part of KWOK's definition. KWOK and rehearse never write it.
	Status KubeletStatus `json:"status,omitempty"`
}

// ClusterAttachList is a list of ClusterAttach objects.
//
// +kubebuilder:object:root=true
type ClusterAttachList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterAttach `json:"items"`
}

// ClusterAttachSpec contains the entries of a ClusterAttach object.
type ClusterAttachSpec struct {
	// Selector selects the pods by namespace and name. Without a selector the entries apply to all pods.
	Selector *ObjectSelector `json:"selector,omitempty"`
	// Attaches are the entries. An entry that names the container takes precedence over an entry without containers.
	Attaches []AttachConfig `json:"attaches"`
}

// AttachConfig is the output of some containers of a pod for clients that attach to them.
type AttachConfig struct {
	// Containers are the containers that the entry applies to. Empty: all containers that no other entry of the object names.
	Containers []string `json:"containers,omitempty"`
	// LogsFile is the file whose new lines the client receives, in the format of CRI runtimes or of Docker.
	LogsFile string `json:"logsFile,omitempty"`
}
