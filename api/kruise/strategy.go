package kruise

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// UpdatePriorityStrategy says which pods are updated first: by weights, or by the order
// of keys, not both.
type UpdatePriorityStrategy struct {
	// WeightPriority: a pod's weight is the sum of the terms that match it; heavier first.
	WeightPriority []UpdatePriorityWeightTerm `json:"weightPriority,omitempty"`
	// OrderPriority: pods without any of the keys first, then by the first key that a pod
	// has, then by the number that its value ends with, larger first.
	OrderPriority []UpdatePriorityOrderTerm `json:"orderPriority,omitempty"`
}

// UpdatePriorityWeightTerm gives pods weight, from 0 to 100.
type UpdatePriorityWeightTerm struct {
	Weight        int32                `json:"weight"`
	MatchSelector metav1.LabelSelector `json:"matchSelector"`
}

// UpdatePriorityOrderTerm is the key of a label.
type UpdatePriorityOrderTerm struct {
	OrderedKey string `json:"orderedKey"`
}

// UpdateScatterTerm is a label whose pods are spread over the update.
type UpdateScatterTerm struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// InPlaceUpdateStrategy are the details of updates in place.
type InPlaceUpdateStrategy struct {
	// GracePeriodSeconds is how long a pod is not ready before its spec is changed, in
	// seconds.
	GracePeriodSeconds int32 `json:"gracePeriodSeconds,omitempty"`
	// How the new image is brought to nodes before the update. v1alpha1 has annotations
	// for the same, which these win over. Nothing of ours reads them: they are kept for
	// whoever downloads images.
	ImagePreDownloadParallelism         *intstr.IntOrString `json:"imagePreDownloadParallelism,omitempty"`
	ImagePreDownloadTimeoutSeconds      *int32              `json:"imagePreDownloadTimeoutSeconds,omitempty"`
	ImagePreDownloadMinUpdatedReadyPods *intstr.IntOrString `json:"imagePreDownloadMinUpdatedReadyPods,omitempty"`
}
