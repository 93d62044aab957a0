package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Logs names the log files of containers. It applies to the pod with its own namespace and name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=logs
type Logs struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec contains the entries.
	Spec LogsSpec `json:"spec"`
	// Status is part of KWOK's definition. KWOK and rehearse never write it.
	Status KubeletStatus `json:"status,omitempty"`
}

// LogsList is a list of Logs objects.
//
// +kubebuilder:object:root=true
type LogsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Logs `json:"items"`
}

// LogsSpec contains the entries of a Logs object.
type LogsSpec struct {
	// Logs are the entries. An entry that names the container takes precedence over an entry without containers.
	Logs []Log `json:"logs"`
}

// ClusterLogs names the log files of containers. It applies to the pods that its selector matches.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clusterlogs,scope=Cluster
type ClusterLogs struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec contains the entries and the selector.
	Spec ClusterLogsSpec `json:"spec"`
	// Status is part of KWOK's definition. KWOK and rehearse never write it.
	Status KubeletStatus `json:"status,omitempty"`
}

// ClusterLogsList is a list of ClusterLogs objects.
//
// +kubebuilder:object:root=true
type ClusterLogsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterLogs `json:"items"`
}

// ClusterLogsSpec contains the entries of a ClusterLogs object.
type ClusterLogsSpec struct {
	// Selector selects the pods by namespace and name. Without a selector the entries apply to all pods.
	Selector *ObjectSelector `json:"selector,omitempty"`
	// Logs are the entries. An entry that names the container takes precedence over an entry without containers.
	Logs []Log `json:"logs"`
}

// Log is the log of some containers of a pod.
type Log struct {
	// Containers are the containers that the entry applies to. Empty: all containers that no other entry of the object names.
	Containers []string `json:"containers,omitempty"`
	// LogsFile is the file with the container's log, in the format of CRI runtimes or of Docker.
	LogsFile string `json:"logsFile,omitempty"`
	// PreviousLogsFile is the file with the log of the container before its last restart.
	PreviousLogsFile string `json:"previousLogsFile,omitempty"`
	// Follow has no effect: the request says whether to follow the log. KWOK does not read it either.
	Follow bool `json:"follow,omitempty"`
}
