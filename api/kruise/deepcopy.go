package kruise

import (
	"maps"
	"slices"
)

// DeepCopyInto copies l into out so that the two share nothing.
func (l *Lifecycle) DeepCopyInto(out *Lifecycle) {
	out.PreDelete = l.PreDelete.DeepCopy()
	out.InPlaceUpdate = l.InPlaceUpdate.DeepCopy()
	out.PreNormal = l.PreNormal.DeepCopy()
}

// DeepCopy returns a copy that shares nothing with l.
func (l *Lifecycle) DeepCopy() *Lifecycle {
	if l == nil {
		return nil
	}
	out := new(Lifecycle)
	l.DeepCopyInto(out)
	return out
}

// DeepCopy returns a copy that shares nothing with h.
func (h *LifecycleHook) DeepCopy() *LifecycleHook {
	if h == nil {
		return nil
	}
	return &LifecycleHook{
		LabelsHandler:     maps.Clone(h.LabelsHandler),
		FinalizersHandler: slices.Clone(h.FinalizersHandler),
		MarkPodNotReady:   h.MarkPodNotReady,
	}
}

// DeepCopy returns a copy that shares nothing with s.
func (s *UpdatePriorityStrategy) DeepCopy() *UpdatePriorityStrategy {
	if s == nil {
		return nil
	}
	out := &UpdatePriorityStrategy{
		WeightPriority: slices.Clone(s.WeightPriority),
		OrderPriority:  slices.Clone(s.OrderPriority),
	}
	for i := range s.WeightPriority {
		s.WeightPriority[i].MatchSelector.DeepCopyInto(&out.WeightPriority[i].MatchSelector)
	}
	return out
}

// DeepCopy returns a copy that shares nothing with s.
func (s *InPlaceUpdateStrategy) DeepCopy() *InPlaceUpdateStrategy {
	if s == nil {
		return nil
	}
	out := *s
	out.ImagePreDownloadParallelism = clone(s.ImagePreDownloadParallelism)
	out.ImagePreDownloadTimeoutSeconds = clone(s.ImagePreDownloadTimeoutSeconds)
	out.ImagePreDownloadMinUpdatedReadyPods = clone(s.ImagePreDownloadMinUpdatedReadyPods)
	return &out
}

// DeepCopy returns a copy that shares nothing with s.
func (s *InPlaceUpdateState) DeepCopy() *InPlaceUpdateState {
	if s == nil {
		return nil
	}
	out := *s
	s.UpdateTimestamp.DeepCopyInto(&out.UpdateTimestamp)
	out.LastContainerStatuses = maps.Clone(s.LastContainerStatuses)
	out.NextContainerImages = maps.Clone(s.NextContainerImages)
	out.NextContainerRefMetadata = maps.Clone(s.NextContainerRefMetadata)
	for name, meta := range s.NextContainerRefMetadata {
		out.NextContainerRefMetadata[name] = *meta.DeepCopy()
	}
	out.NextContainerResources = maps.Clone(s.NextContainerResources)
	for name, resources := range s.NextContainerResources {
		out.NextContainerResources[name] = *resources.DeepCopy()
	}
	if s.PreCheckBeforeNext != nil {
		out.PreCheckBeforeNext = &InPlacePreCheck{ContainersRequiredReady: slices.Clone(s.PreCheckBeforeNext.ContainersRequiredReady)}
	}
	out.ContainerBatchesRecord = slices.Clone(s.ContainerBatchesRecord)
	for i, batch := range s.ContainerBatchesRecord {
		out.ContainerBatchesRecord[i] = InPlaceContainerBatch{
			Timestamp:  *batch.Timestamp.DeepCopy(),
			Containers: slices.Clone(batch.Containers),
		}
	}
	return &out
}

// DeepCopy returns a copy that shares nothing with s.
func (s *InPlaceUpdateSpec) DeepCopy() *InPlaceUpdateSpec {
	if s == nil {
		return nil
	}
	out := *s
	out.ContainerImages = maps.Clone(s.ContainerImages)
	out.ContainerResources = maps.Clone(s.ContainerResources)
	for name, resources := range s.ContainerResources {
		out.ContainerResources[name] = *resources.DeepCopy()
	}
	out.MetaDataPatch = slices.Clone(s.MetaDataPatch)
	return &out
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}
