package v1alpha1

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyObject implements runtime.Object.
func (s *Stage) DeepCopyObject() runtime.Object { return s.DeepCopy() }

// DeepCopyObject implements runtime.Object.
func (l *StageList) DeepCopyObject() runtime.Object { return l.DeepCopy() }

// DeepCopy returns a copy that shares nothing with s.
func (s *Stage) DeepCopy() *Stage {
	if s == nil {
		return nil
	}
	out := &Stage{TypeMeta: s.TypeMeta}
	s.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	s.Spec.DeepCopyInto(&out.Spec)
	out.Status.Conditions = copyEach(s.Status.Conditions, func(in, out *Condition) {
		*out = *in
		in.LastTransitionTime.DeepCopyInto(&out.LastTransitionTime)
	})
	return out
}

// DeepCopy returns a copy that shares nothing with l.
func (l *StageList) DeepCopy() *StageList {
	if l == nil {
		return nil
	}
	out := &StageList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = copyEach(l.Items, func(in, out *Stage) { *out = *in.DeepCopy() })
	return out
}

// DeepCopyInto copies s into out so that the two share nothing.
func (s *StageSpec) DeepCopyInto(out *StageSpec) {
	*out = *s
	if s.Selector != nil {
		out.Selector = &StageSelector{
			MatchLabels:      maps.Clone(s.Selector.MatchLabels),
			MatchAnnotations: maps.Clone(s.Selector.MatchAnnotations),
			MatchExpressions: copyEach(s.Selector.MatchExpressions, copySelectorExpression),
		}
	}
	out.WeightFrom = copyExpressionFrom(s.WeightFrom)
	if s.Delay != nil {
		out.Delay = &StageDelay{
			DurationMilliseconds:       copyPtr(s.Delay.DurationMilliseconds),
			DurationFrom:               copyExpressionFrom(s.Delay.DurationFrom),
			JitterDurationMilliseconds: copyPtr(s.Delay.JitterDurationMilliseconds),
			JitterDurationFrom:         copyExpressionFrom(s.Delay.JitterDurationFrom),
		}
	}
	if s.Next != nil {
		next := *s.Next
		next.Event = copyPtr(s.Next.Event)
		next.Finalizers = copyFinalizers(s.Next.Finalizers)
		next.Patches = copyEach(s.Next.Patches, copyPatch)
		next.StatusSubresource = copyPtr(s.Next.StatusSubresource)
		next.StatusPatchAs = copyPtr(s.Next.StatusPatchAs)
		out.Next = &next
	}
	out.Steps = copyEach(s.Steps, copyStep)
}

func copyStep(in, out *StageStep) {
	*out = *in
	out.Event = copyPtr(in.Event)
	out.Finalizers = copyFinalizers(in.Finalizers)
	if in.Patch != nil {
		out.Patch = &StagePatch{}
		copyPatch(in.Patch, out.Patch)
	}
	if in.Apply != nil {
		out.Apply = copyPtr(in.Apply)
		out.Apply.Type = copyPtr(in.Apply.Type)
		out.Apply.Impersonation = copyPtr(in.Apply.Impersonation)
	}
}

func copyPatch(in, out *StagePatch) {
	*out = *in
	out.Type = copyPtr(in.Type)
	out.Impersonation = copyPtr(in.Impersonation)
}

func copySelectorExpression(in, out *SelectorExpression) {
	*out = *in
	if in.JQ != nil {
		out.JQ = copyPtr(in.JQ)
		out.JQ.Values = slices.Clone(in.JQ.Values)
	}
	out.CEL = copyPtr(in.CEL)
	out.Values = slices.Clone(in.Values)
}

func copyExpressionFrom(in *ExpressionFrom) *ExpressionFrom {
	out := copyPtr(in)
	if out != nil {
		out.JQ, out.CEL = copyPtr(in.JQ), copyPtr(in.CEL)
	}
	return out
}

func copyFinalizers(in *StageFinalizers) *StageFinalizers {
	if in == nil {
		return nil
	}
	return &StageFinalizers{Add: slices.Clone(in.Add), Remove: slices.Clone(in.Remove), Empty: in.Empty}
}

func copyPtr[T any](in *T) *T {
	if in == nil {
		return nil
	}
	out := *in
	return &out
}

func copyEach[T any](in []T, each func(in, out *T)) []T {
	if in == nil {
		return nil
	}
	out := make([]T, len(in))
	for i := range in {
		each(&in[i], &out[i])
	}
	return out
}
