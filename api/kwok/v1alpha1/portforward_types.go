package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PortForward says where connections to ports of pods go. It applies to the pod with its own namespace and name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=portforwards
type PortForward struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec contains the entries.
	Spec PortForwardSpec `json:"spec"`
	// Status is part of KWOK's definition. KWOK and rehearse never write it.
	Status KubeletStatus `json:"status,omitempty"`
}

// PortForwardList is a list of PortForward objects.
//
// +kubebuilder:object:root=true
type PortForwardList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PortForward `json:"items"`
}

// PortForwardSpec contains the entries of a PortForward object.
type PortForwardSpec struct {
	// Forwards are the entries. An entry that names the port takes precedence over an entry without ports.
	Forwards []Forward `json:"forwards"`
}

// ClusterPortForward says where connections to ports of pods go. It applies to the pods that its selector matches.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clusterportforwards,scope=Cluster
type ClusterPortForward struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec contains the entries and the selector.
	Spec ClusterPortForwardSpec `json:"spec"`
	// Status is part of KWOK's definition. KWOK and rehearse never write it.
	Status KubeletStatus `json:"status,omitempty"`
}

// ClusterPortForwardList is a list of ClusterPortForward objects.
//
// +kubebuilder:object:root=true
type ClusterPortForwardList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterPortForward `json:"items"`
}

// ClusterPortForwardSpec contains the entries of a ClusterPortForward object.
type ClusterPortForwardSpec struct {
	// Selector selects the pods by namespace and name. Without a selector the entries apply to all pods.
	Selector *ObjectSelector `json:"selector,omitempty"`
	// Forwards are the entries. An entry that names the port takes precedence over an entry without ports.
	Forwards []Forward `json:"forwards"`
}

// Forward is the target of connections to some ports of a pod.
type Forward struct {
	// Ports are the ports that the entry applies to. Empty: all ports that no other entry of the object names.
	Ports []int32 `json:"ports,omitempty"`
	// Target is the address that a connection is forwarded to.
	Target *ForwardTarget `json:"target,omitempty"`
	// Command is a command that reads the connection's data from stdin and writes its answer to stdout. It takes precedence over
	// Target.
	Command []string `json:"command,omitempty"`
}

// ForwardTarget is a TCP address, as the machine of the kubelet sees it.
type ForwardTarget struct {
	// Port is the TCP port.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
	// Address is a host name or an IP address.
	//
	// +kubebuilder:validation:MinLength=1
	Address string `json:"address"`
}
