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

// setRecord is what has become known of one CloneSet.
type setRecord struct {
	uid    types.UID
	object *unstructured.Unstructured
	set    *v1alpha1.CloneSet
	specs  []setSpec // all that were in force, the newest last
}

// setSpec is a spec with its numbers resolved.
type setSpec struct {
	revision, generation                          int64
	replicas, partition, maxUnavailable, maxSurge int
	scaleMaxUnavailable                           int
	// scaleSurge is how many pods there may be beyond those, if as many are to be deleted
	// because somebody asked for it; named are those asked for by name.
	scaleSurge int
	named      []string
	minReady   time.Duration
	hooks      kruise.Lifecycle
	// excludes: pods that wait for their preDelete hook are no replicas. goesBack: pods
	// beyond the partition return to the old revision.
	excludes, goesBack bool
}

// goesBackAnnotation is that of our controller; Kruise has a feature gate for it.
const goesBackAnnotation = "rehearse-k8s.github.io/partition-rollback"

func (s *setRecord) observe(o *unstructured.Unstructured) {
	if s.object == o {
		return
	}
	set := &v1alpha1.CloneSet{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, set) != nil {
		return // no CloneSet as its definition has it
	}
	s.object, s.set = o, set
	next := setSpecOf(set)
	next.revision = inspect.Revision(o)
	if len(s.specs) == 0 || s.spec().generation != next.generation || s.spec().excludes != next.excludes || s.spec().goesBack != next.goesBack {
		s.specs = append(s.specs, next)
	}
}

func setSpecOf(set *v1alpha1.CloneSet) setSpec {
	u := &set.Spec.UpdateStrategy
	s := setSpec{
		generation: set.Generation, replicas: 1, minReady: time.Duration(set.Spec.MinReadySeconds) * time.Second,
		excludes: set.Labels[kruise.LabelExcludePreparingDelete] == "true", goesBack: set.Annotations[goesBackAnnotation] == "true",
	}
	if set.Spec.Replicas != nil {
		s.replicas = int(*set.Spec.Replicas)
	}
	if set.Spec.Lifecycle != nil {
		s.hooks = *set.Spec.Lifecycle
	}
	s.partition = min(s.number(u.Partition, 0, true), s.replicas)
	if p := u.Partition; p != nil && p.Type == intstr.String && p.StrVal != "100%" && s.replicas > 1 && s.partition == s.replicas {
		s.partition-- // what is only not 100% leaves one pod to be updated
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

// spec is the one in force.
func (s *setRecord) spec() *setSpec { return &s.specs[len(s.specs)-1] }

// inForce are the specs that were in force at some moment since a revision.
func (s *setRecord) inForce(since int64) []setSpec {
	n := len(s.specs) - 1
	for n > 0 && s.specs[n].revision > since {
		n--
	}
	return s.specs[max(n, 0):]
}

// podRecord is what has become known of one pod.
type podRecord struct {
	uid  types.UID
	name string
	// made is the step in which a controller made or adopted it; -1: nobody did.
	made   int
	object *unstructured.Unstructured
	// versions are all that it had, the newest last.
	versions []podVersion
	listed   bool
	// wasNormal: it was Normal once. removed: a controller deleted it when it was active.
	wasNormal, removed bool
	// added are finalizers that a controller put on it.
	added []string
}

// podVersion is a pod at one moment. Of one that is gone only the first three are set.
type podVersion struct {
	revision int64
	writer   *history.Step // the controller's write that made it so, nil if somebody else did
	gone     bool

	set                types.UID // that controls it
	terminating, ended bool
	pod                *corev1.Pod
	state              kruise.LifecycleState
}

func (p *podRecord) now() *podVersion { return &p.versions[len(p.versions)-1] }

// before is the version before the newest, nil if there is none.
func (p *podRecord) before() *podVersion {
	if len(p.versions) < 2 {
		return nil
	}
	return &p.versions[len(p.versions)-2]
}

// wasMarked tells whether somebody has ever asked for its deletion by label.
func (p *podRecord) wasMarked() bool {
	return slices.ContainsFunc(p.versions, func(v podVersion) bool {
		if v.pod == nil {
			return false
		}
		_, marked := v.pod.Labels[kruise.LabelSpecifiedDelete]
		return marked
	})
}

// since are the versions from the one on that a cache of a revision shows. It shows none
// of a pod that was made later.
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

// available tells whether users can count on a pod of a CloneSet.
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

// is the status of a condition, "" if there is none.
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

// bears tells how many handlers of a hook a pod bears, and how many there are.
func (p *podVersion) bears(h *kruise.LifecycleHook) (borne, all int) {
	if h == nil {
		return 0, 0
	}
	for key, value := range h.LabelsHandler {
		if got, ok := p.pod.Labels[key]; ok && got == value {
			borne++
		}
	}
	for _, f := range h.FinalizersHandler {
		if slices.Contains(p.pod.Finalizers, f) {
			borne++
		}
	}
	return borne, len(h.LabelsHandler) + len(h.FinalizersHandler)
}

func (p *podVersion) held(h *kruise.LifecycleHook) bool {
	borne, _ := p.bears(h)
	return borne > 0
}

func (p *podVersion) complete(h *kruise.LifecycleHook) bool {
	borne, all := p.bears(h)
	return borne == all
}
