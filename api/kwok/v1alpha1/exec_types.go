package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Exec allows commands in containers, which run on the machine of the kubelet. It applies to the pod with its own namespace and name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=execs
type Exec struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec contains the entries.
	Spec ExecSpec `json:"spec"`
	// Status is part of KWOK's definition. KWOK and rehearse never write it.
	Status KubeletStatus `json:"status,omitempty"`
}

// ExecList is a list of Exec objects.
//
// +kubebuilder:object:root=true
type ExecList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Exec `json:"items"`
}

// ExecSpec contains the entries of a Exec object.
type ExecSpec struct {
	// Execs are the entries. An entry that names the container takes precedence over an entry without containers.
	Execs []ExecTarget `json:"execs"`
}

// ClusterExec allows commands in containers, which run on the machine of the kubelet. It applies to the pods that its selector matches.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clusterexecs,scope=Cluster
type ClusterExec struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec contains the entries and the selector.
	Spec ClusterExecSpec `json:"spec"`
	// Status is part of KWOK's definition. KWOK and rehearse never write it.
	Status KubeletStatus `json:"status,omitempty"`
}

// ClusterExecList is a list of ClusterExec objects.
//
// +kubebuilder:object:root=true
type ClusterExecList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterExec `json:"items"`
}

// ClusterExecSpec contains the entries of a ClusterExec object.
type ClusterExecSpec struct {
	// Selector selects the pods by namespace and name. Without a selector the entries apply to all pods.
	Selector *ObjectSelector `json:"selector,omitempty"`
	// Execs are the entries. An entry that names the container takes precedence over an entry without containers.
	Execs []ExecTarget `json:"execs"`
}

// ExecTarget says where the commands of some containers of a pod run.
type ExecTarget struct {
	// Containers are the containers that the entry applies to. Empty: all containers that no other entry of the object names.
	Containers []string `json:"containers,omitempty"`
	// Local runs the commands on the machine of the kubelet. Without it, exec fails.
	Local *ExecTargetLocal `json:"local,omitempty"`
}

// ExecTargetLocal is the environment of a command that runs on the machine of the kubelet.
type ExecTargetLocal struct {
	// WorkDir is the working directory. Default: the working directory of the kubelet.
	WorkDir string `json:"workDir,omitempty"`
	// Envs are added to the environment of the kubelet.
	Envs []EnvVar `json:"envs,omitempty"`
	// SecurityContext is the user and the group of the command. Default: those of the kubelet.
	SecurityContext *SecurityContext `json:"securityContext,omitempty"`
}

// EnvVar is an environment variable.
type EnvVar struct {
	// Name of the variable.
	//
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Value of the variable.
	Value string `json:"value,omitempty"`
}

// SecurityContext is the user and the group of a command.
type SecurityContext struct {
	// RunAsUser is the numeric user ID.
	RunAsUser *int64 `json:"runAsUser,omitempty"`
	// RunAsGroup is the numeric group ID.
	RunAsGroup *int64 `json:"runAsGroup,omitempty"`
}
