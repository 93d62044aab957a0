package v1alpha1

// ObjectSelector selects pods by namespace and name. A pod must match both lists. An empty list matches every pod.
type ObjectSelector struct {
	// MatchNamespaces are the namespaces of the pods.
	MatchNamespaces []string `json:"matchNamespaces,omitempty"`
	// MatchNames are the names of the pods.
	MatchNames []string `json:"matchNames,omitempty"`
}

// KubeletStatus is the status of the kinds that configure kubelet endpoints. KWOK and rehearse never write it.
type KubeletStatus struct {
	// Conditions of the object.
	Conditions []Condition `json:"conditions,omitempty"`
}
