package cloneset

import (
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/invariant/internal/inspect"
)

// setRecord is what the run has shown of one CloneSet.
type setRecord struct {
	uid    types.UID
	object *unstructured.Unstructured
	set    *v1alpha1.CloneSet
	specs  []setSpec // all specs so far, the newest last
}

// setSpec is a spec with its numbers resolved.
type setSpec struct {
	revision, generation                          int64
	replicas, partition, maxUnavailable, maxSurge int
	scaleMaxUnavailable                           int
	// scaleSurge is how many more pods are allowed if a user has asked for the deletion of as many;
	// named are those that the user asked for by name.
	scaleSurge int
	named      []string
	minReady   time.Duration
	hooks      kruise.Lifecycle
	// excludes: pods that wait for their preDelete hook do not count as replicas. goesBack: pods
	// beyond the partition are updated back to the current revision.
	excludes, rollsBack bool
}

// rollsBackAnnotation is an annotation of this repository's controller; Kruise has a feature gate instead.
const rollsBackAnnotation = "rehearse-k8s.github.io/partition-rollback"

func (s *setRecord) observe(o *unstructured.Unstructured) {
	if s.object == o {
		return
	}
	set := &v1alpha1.CloneSet{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, set) != nil {
		return // it cannot be decoded as a CloneSet
	}
	s.object, s.set = o, set
	next := setSpecOf(set)
	next.revision = inspect.Revision(o)
	if len(s.specs) == 0 || s.spec().generation != next.generation || s.spec().excludes != next.excludes || s.spec().rollsBack != next.rollsBack {
		s.specs = append(s.specs, next)
	}
}

func setSpecOf(set *v1alpha1.CloneSet) setSpec {
	u := &set.Spec.UpdateStrategy
	s := setSpec{
		generation: set.Generation, replicas: 1, minReady: time.Duration(set.Spec.MinReadySeconds) * time.Second,
		excludes: set.Labels[kruise.LabelExcludePreparingDelete] == "true", rollsBack: set.Annotations[rollsBackAnnotation] == "true",
	}
	if set.Spec.Replicas != nil {
		s.replicas = int(*set.Spec.Replicas)
	}
	if set.Spec.Lifecycle != nil {
		s.hooks = *set.Spec.Lifecycle
	}
	s.partition = min(s.number(u.Partition, 0, true), s.replicas)
	if p := u.Partition; p != nil && p.Type == intstr.String && p.StrVal != "100%" && s.replicas > 1 && s.partition == s.replicas {
		s.partition-- // a partition below 100% leaves at least one pod to be updated
	}
	switch {
	case u.Type == v1alpha1.InPlaceOnly:
	case u.Paused:
		s.scaleSurge, s.named = s.number(u.MaxSurge, 0, true), set.Spec.ScaleStrategy.PodsToDelete
	default:
		s.maxSurge = s.number(u.MaxSurge, 0, true)
	}
	unavailable := u.MaxUnavailable
	if unavailable == nil {
		unavailable = &intstr.IntOrString{Type: intstr.String, StrVal: "20%"}
	}
	s.maxUnavailable = s.number(unavailable, 0, s.maxSurge == 0)
	s.scaleMaxUnavailable = s.number(set.Spec.ScaleStrategy.MaxUnavailable, math.MaxInt32, true)
	return s
}

func (s *setSpec) number(v *intstr.IntOrString, otherwise int, up bool) int {
	if v == nil {
		return otherwise
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, s.replicas, up)
	if err != nil {
		return 0
	}
	return n
}

// spec returns the spec in force.
func (s *setRecord) spec() *setSpec { return &s.specs[len(s.specs)-1] }

// inForce returns the specs that were in force at some moment since a revision.
func (s *setRecord) inForce(since int64) []setSpec {
	n := len(s.specs) - 1
	for n > 0 && s.specs[n].revision > since {
		n--
	}
	return s.specs[max(n, 0):]
}

// podRecord contains the facts about one pod that the run has shown.
type podRecord struct {
	uid  types.UID
	name string
	// owned is the step in which a controller created or adopted it; -1: none did.
	owned  int
	object *unstructured.Unstructured
	// versions are all its versions, the newest last.
	versions []podVersion
	listed   bool
	// wasNormal: it has been Normal. removed: a controller deleted it while it was active.
	wasNormal, removed bool
	// added are the finalizers that a controller has added to it.
	added []string
}

// podVersion is one version of a pod. If it is gone, only the first three fields are set.
type podVersion struct {
	revision int64
	writer   *history.Step // the controller's write that created this version, nil if another client did
	gone     bool

	set                types.UID // that controls it
	terminating, ended bool
	pod                *corev1.Pod
	state              kruise.LifecycleState
}

func (p *podRecord) now() *podVersion { return &p.versions[len(p.versions)-1] }

// before returns the version before the newest, nil if there is none.
func (p *podRecord) before() *podVersion {
	if len(p.versions) < 2 {
		return nil
	}
	return &p.versions[len(p.versions)-2]
}

// wasMarked reports whether the pod has ever been labelled for deletion.
func (p *podRecord) wasMarked() bool {
	return slices.ContainsFunc(p.versions, func(v podVersion) bool {
		if v.pod == nil {
			return false
		}
		_, marked := v.pod.Labels[kruise.LabelSpecifiedDelete]
		return marked
	})
}

// since returns the version that a cache at a revision shows, nil if the pod was created later, and
// all newer versions.
func (p *podRecord) since(revision int64) (shown *podVersion, later []podVersion) {
	n := len(p.versions)
	for n > 0 && p.versions[n-1].revision > revision {
		n--
	}
	if n > 0 {
		shown = &p.versions[n-1]
	}
	return shown, p.versions[n:]
}

func (p *podVersion) active() bool { return !p.gone && !p.terminating && !p.ended }

func (p *podVersion) normal() bool { return p.state == "" || p.state == kruise.StateNormal }

func (p *podVersion) ready() bool {
	return p.pod.Status.Phase == corev1.PodRunning && p.is(string(corev1.PodReady)) == corev1.ConditionTrue &&
		p.is(kruise.ConditionInPlaceUpdateReady) != corev1.ConditionFalse
}

// available reports whether a pod of a CloneSet is available.
func (p *podVersion) available(set types.UID, minReady time.Duration, at time.Time) bool {
	if !p.active() || p.set != set || !p.normal() || !p.ready() {
		return false
	}
	return minReady == 0 || !p.condition(string(corev1.PodReady)).LastTransitionTime.Add(minReady).After(at)
}

func (p *podVersion) condition(kind string) *corev1.PodCondition {
	for i := range p.pod.Status.Conditions {
		if c := &p.pod.Status.Conditions[i]; string(c.Type) == kind {
			return c
		}
	}
	return nil
}

// is returns the status of a condition, "" if there is none.
func (p *podVersion) is(kind string) corev1.ConditionStatus {
	if c := p.condition(kind); c != nil {
		return c.Status
	}
	return ""
}

func (p *podVersion) gated(kind string) bool {
	return slices.Contains(p.pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: corev1.PodConditionType(kind)})
}

func (p *podVersion) image(container string) string {
	for i := range p.pod.Spec.Containers {
		if c := &p.pod.Spec.Containers[i]; c.Name == container {
			return c.Image
		}
	}
	return ""
}

// handlers returns how many handlers of a hook a pod has, and how many the hook has.
func (p *podVersion) handlers(h *kruise.LifecycleHook) (present, all int) {
	if h == nil {
		return 0, 0
	}
	for key, value := range h.LabelsHandler {
		if got, ok := p.pod.Labels[key]; ok && got == value {
			present++
		}
	}
	for _, f := range h.FinalizersHandler {
		if slices.Contains(p.pod.Finalizers, f) {
			present++
		}
	}
	return present, len(h.LabelsHandler) + len(h.FinalizersHandler)
}

// blocked reports whether a pod has any handler of a hook.
func (p *podVersion) blocked(h *kruise.LifecycleHook) bool {
	present, _ := p.handlers(h)
	return present > 0
}

// complete reports whether a pod has all handlers of a hook.
func (p *podVersion) complete(h *kruise.LifecycleHook) bool {
	present, all := p.handlers(h)
	return present == all
}
