package kruise

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// UpdatePriorityStrategy orders the updates of pods: by weights or by label keys, not both.
type UpdatePriorityStrategy struct {
	// WeightPriority: the weight of a pod is the sum of the terms that match it; the highest weight first.
	WeightPriority []UpdatePriorityWeightTerm `json:"weightPriority,omitempty"`
	// OrderPriority: pods without any of the keys first, then by the first key that a pod has, then by the
	// number at the end of its value, the largest first.
	OrderPriority []UpdatePriorityOrderTerm `json:"orderPriority,omitempty"`
}

// UpdatePriorityWeightTerm adds a weight to matching pods, from 0 to 100.
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

// InPlaceUpdateStrategy configures in-place updates.
type InPlaceUpdateStrategy struct {
	// GracePeriodSeconds is how long a pod is not ready before its spec is changed, in seconds.
	GracePeriodSeconds int32 `json:"gracePeriodSeconds,omitempty"`
	// How nodes pull the new image before the update. v1alpha1 has annotations with the same meaning; these
	// fields take precedence. Our controller does not read them: they are kept for image pullers.
	ImagePreDownloadParallelism         *intstr.IntOrString `json:"imagePreDownloadParallelism,omitempty"`
	ImagePreDownloadTimeoutSeconds      *int32              `json:"imagePreDownloadTimeoutSeconds,omitempty"`
	ImagePreDownloadMinUpdatedReadyPods *intstr.IntOrString `json:"imagePreDownloadMinUpdatedReadyPods,omitempty"`
}
