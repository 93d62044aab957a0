package v1alpha1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyObject implements runtime.Object.
func (c *CloneSet) DeepCopyObject() runtime.Object { return c.DeepCopy() }

// DeepCopyObject implements runtime.Object.
func (l *CloneSetList) DeepCopyObject() runtime.Object { return l.DeepCopy() }

// DeepCopy returns a copy that shares nothing with c.
func (c *CloneSet) DeepCopy() *CloneSet {
	if c == nil {
		return nil
	}
	out := &CloneSet{TypeMeta: c.TypeMeta}
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	c.Spec.DeepCopyInto(&out.Spec)
	c.Status.DeepCopyInto(&out.Status)
	return out
}

// DeepCopy returns a copy that shares nothing with l.
func (l *CloneSetList) DeepCopy() *CloneSetList {
	if l == nil {
		return nil
	}
	out := &CloneSetList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	if l.Items != nil {
		out.Items = make([]CloneSet, len(l.Items))
	}
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopy()
	}
	return out
}

// DeepCopyInto copies s into out so that the two share nothing.
func (s *CloneSetSpec) DeepCopyInto(out *CloneSetSpec) {
	*out = *s
	out.Replicas = clone(s.Replicas)
	out.Selector = s.Selector.DeepCopy()
	s.Template.DeepCopyInto(&out.Template)
	if s.VolumeClaimTemplates != nil {
		out.VolumeClaimTemplates = make([]corev1.PersistentVolumeClaim, len(s.VolumeClaimTemplates))
	}
	for i := range s.VolumeClaimTemplates {
		s.VolumeClaimTemplates[i].DeepCopyInto(&out.VolumeClaimTemplates[i])
	}
	out.ScaleStrategy.PodsToDelete = slices.Clone(s.ScaleStrategy.PodsToDelete)
	out.ScaleStrategy.MaxUnavailable = clone(s.ScaleStrategy.MaxUnavailable)
	s.UpdateStrategy.DeepCopyInto(&out.UpdateStrategy)
	out.RevisionHistoryLimit = clone(s.RevisionHistoryLimit)
	out.ProgressDeadlineSeconds = clone(s.ProgressDeadlineSeconds)
	out.Lifecycle = s.Lifecycle.DeepCopy()
}

// DeepCopyInto copies s into out so that the two share nothing.
func (s *CloneSetUpdateStrategy) DeepCopyInto(out *CloneSetUpdateStrategy) {
	*out = *s
	out.Partition = clone(s.Partition)
	out.MaxUnavailable = clone(s.MaxUnavailable)
	out.MaxSurge = clone(s.MaxSurge)
	out.PriorityStrategy = s.PriorityStrategy.DeepCopy()
	out.ScatterStrategy = slices.Clone(s.ScatterStrategy)
	out.InPlaceUpdateStrategy = s.InPlaceUpdateStrategy.DeepCopy()
}

// DeepCopyInto copies s into out so that the two share nothing.
func (s *CloneSetStatus) DeepCopyInto(out *CloneSetStatus) {
	*out = *s
	out.CollisionCount = clone(s.CollisionCount)
	out.Conditions = slices.Clone(s.Conditions)
	for i := range s.Conditions {
		s.Conditions[i].LastUpdateTime.DeepCopyInto(&out.Conditions[i].LastUpdateTime)
		s.Conditions[i].LastTransitionTime.DeepCopyInto(&out.Conditions[i].LastTransitionTime)
	}
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

// DeepCopy returns a copy that shares nothing with s.
func (s *CloneSetStatus) DeepCopy() *CloneSetStatus {
	if s == nil {
		return nil
	}
	out := &CloneSetStatus{}
	s.DeepCopyInto(out)
	return out
}
