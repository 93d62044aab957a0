package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResourceUsage defines the simulated resource usage of containers. It applies to the pod with its own namespace and name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=resourceusages
type ResourceUsage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec contains the entries.
	Spec ResourceUsageSpec `json:"spec"`
	// Status is part of KWOK's definition. KWOK and rehearse never write it.
	Status KubeletStatus `json:"status,omitempty"`
}

// ResourceUsageList is a list of ResourceUsage objects.
//
// +kubebuilder:object:root=true
type ResourceUsageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ResourceUsage `json:"items"`
}

// ResourceUsageSpec contains the entries of a ResourceUsage object.
type ResourceUsageSpec struct {
	// Usages are the entries. An entry that names the container takes precedence over an entry without containers.
	Usages []ResourceUsageContainer `json:"usages"`
}

// ClusterResourceUsage defines the simulated resource usage of containers. It applies to the pods that its selector matches.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clusterresourceusages,scope=Cluster
type ClusterResourceUsage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec contains the entries and the selector.
	Spec ClusterResourceUsageSpec `json:"spec"`
	// Status is part of KWOK's definition. KWOK and rehearse never write it.
	Status KubeletStatus `json:"status,omitempty"`
}

// ClusterResourceUsageList is a list of ClusterResourceUsage objects.
//
// +kubebuilder:object:root=true
type ClusterResourceUsageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterResourceUsage `json:"items"`
}

// ClusterResourceUsageSpec contains the entries of a ClusterResourceUsage object.
type ClusterResourceUsageSpec struct {
	// Selector selects the pods by namespace and name. Without a selector the entries apply to all pods.
	Selector *ObjectSelector `json:"selector,omitempty"`
	// Usages are the entries. An entry that names the container takes precedence over an entry without containers.
	Usages []ResourceUsageContainer `json:"usages"`
}

// ResourceUsageContainer defines the usage of some containers of a pod.
type ResourceUsageContainer struct {
	// Containers are the containers that the entry applies to. Empty: all containers that no other entry of the object names.
	Containers []string `json:"containers,omitempty"`
	// Usage is the usage by resource (cpu, memory, ...).
	Usage map[string]ResourceUsageValue `json:"usage,omitempty"`
}

// ResourceUsageValue defines the usage of one resource.
type ResourceUsageValue struct {
	// Value is a constant. It takes precedence over Expression.
	Value *resource.Quantity `json:"value,omitempty"`
	// Expression is a CEL expression that returns a quantity or a number. It is evaluated when a client requests the usage.
	Expression *string `json:"expression,omitempty"`
}
