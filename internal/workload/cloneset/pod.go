package cloneset

import (
	"reflect"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/api/kruise"
)

// Pod contains everything that a plan can read of a pod. An update that leaves it unchanged (Same)
// cannot change a plan, so the controller ignores it. Kruise filters events by a list of cases, which
// has been incomplete (kruise #2057, #2473); here nothing can be missing.
//
// Maps and slices are those of the object and must not be changed.
type Pod struct {
	Namespace, Name string
	UID             types.UID
	// ResourceVersion is for the preconditions of writes. No decision depends on it, and Same ignores
	// it.
	ResourceVersion string

	// Controller is the UID of the pod's controller, "" if it has none.
	Controller  types.UID
	Labels      map[string]string
	Finalizers  []string
	Created     time.Time
	Terminating bool

	// The values of annotations.
	DeletionCost, InPlaceState, InPlaceGrace, StateSince string
	// Ordered are the current values of the annotations that InPlaceGrace will change.
	Ordered map[string]string

	Node string
	// Claims are the names of the claims that a pod without a node mounts. The API protects those of a
	// pod with a node from deletion.
	Claims     []string
	Phase      corev1.PodPhase
	Gates      []string
	Containers []Container
	Statuses   []Status
	// Behind is by how many generations the kubelet's status is older than the spec; also 0 if the
	// kubelet does not report the observed generation.
	Behind int64
	// Grace is the pod's termination grace period.
	Grace   time.Duration
	Ready   Condition
	InPlace Condition // apps.ConditionInPlaceUpdateReady
	Traffic Condition // apps.ConditionPodReady

	read
}

// read contains values derived from the other fields once, because plans read them often and a map
// lookup costs more.
type read struct {
	state                kruise.LifecycleState
	instance, revision   string
	marked               bool // a user asked for the pod's deletion, by label
	inPlaceGate, traffic bool
	// active: the pod has not finished and is not being deleted.
	active bool
}

// Container is what a plan reads of a container's spec.
type Container struct {
	Name, Image  string
	Resources    corev1.ResourceRequirements
	ResizePolicy []corev1.ContainerResizePolicy
}

// Status is what a plan reads of a container's status.
type Status struct {
	Name, Image, ImageID, ContainerID string
	Ready                             bool
	Restarts                          int
	// Started is when the running container started; zero if none runs.
	Started   time.Time
	Resources *corev1.ResourceRequirements
}

// Condition is a condition of a pod, the zero value if the pod does not have it.
type Condition struct {
	Status  corev1.ConditionStatus
	Since   time.Time
	Message string
}

// View returns the Pod of an object.
func View(o *corev1.Pod) *Pod {
	p := &Pod{
		Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
		Labels: o.Labels, Finalizers: o.Finalizers, Created: o.CreationTimestamp.Time, Terminating: o.DeletionTimestamp != nil,
		DeletionCost: o.Annotations[kruise.AnnotationDeletionCost],
		InPlaceState: o.Annotations[kruise.AnnotationInPlaceState], InPlaceGrace: o.Annotations[kruise.AnnotationInPlaceGrace],
		StateSince: o.Annotations[kruise.AnnotationStateSince],
		Node:       o.Spec.NodeName, Phase: o.Status.Phase,
		Containers: make([]Container, 0, len(o.Spec.Containers)),
		Statuses:   make([]Status, 0, len(o.Status.ContainerStatuses)),
	}
	if o.Status.ObservedGeneration != 0 {
		p.Behind = o.Generation - o.Status.ObservedGeneration
	}
	if s := o.Spec.TerminationGracePeriodSeconds; s != nil {
		p.Grace = time.Duration(*s) * time.Second
	}
	if p.InPlaceGrace != "" {
		p.Ordered = orderedAnnotations(p.InPlaceGrace, o.Annotations)
	}
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		p.Controller = ref.UID
	}
	if p.Node == "" {
		for i := range o.Spec.Volumes {
			if c := o.Spec.Volumes[i].PersistentVolumeClaim; c != nil {
				p.Claims = append(p.Claims, c.ClaimName)
			}
		}
	}
	for _, gate := range o.Spec.ReadinessGates {
		p.Gates = append(p.Gates, string(gate.ConditionType))
	}
	for i := range o.Spec.Containers {
		c := &o.Spec.Containers[i]
		p.Containers = append(p.Containers, Container{Name: c.Name, Image: c.Image, Resources: c.Resources, ResizePolicy: c.ResizePolicy})
	}
	for i := range o.Status.ContainerStatuses {
		c := &o.Status.ContainerStatuses[i]
		s := Status{
			Name: c.Name, Image: c.Image, ImageID: c.ImageID, ContainerID: c.ContainerID,
			Ready: c.Ready, Restarts: int(c.RestartCount), Resources: c.Resources,
		}
		if c.State.Running != nil {
			s.Started = c.State.Running.StartedAt.Time
		}
		p.Statuses = append(p.Statuses, s)
	}
	for i := range o.Status.Conditions {
		c := &o.Status.Conditions[i]
		switch is := (Condition{c.Status, c.LastTransitionTime.Time, c.Message}); string(c.Type) {
		case string(corev1.PodReady):
			is.Message = ""
			p.Ready = is
		case kruise.ConditionInPlaceUpdateReady:
			p.InPlace = is
		case kruise.ConditionPodReady:
			p.Traffic = is
		}
	}
	p.read = read{
		state: kruise.LifecycleState(p.Labels[kruise.LabelState]), instance: p.Labels[kruise.LabelInstanceID], revision: p.Labels[kruise.LabelRevision],
		inPlaceGate: slices.Contains(p.Gates, kruise.ConditionInPlaceUpdateReady), traffic: slices.Contains(p.Gates, kruise.ConditionPodReady),
		active: !p.Terminating && p.Phase != corev1.PodSucceeded && p.Phase != corev1.PodFailed,
	}
	_, p.marked = p.Labels[kruise.LabelSpecifiedDelete]
	return p
}

// Same reports whether two pods are equal for every plan.
func (p *Pod) Same(q *Pod) bool {
	a, b := *p, *q
	a.ResourceVersion, b.ResourceVersion = "", ""
	return reflect.DeepEqual(a, b)
}

// normal reports whether a pod is Normal. A pod without a state was adopted, or created by a Kruise
// that had no states yet.
func (p *Pod) normal() bool { return p.state == "" || p.state == kruise.StateNormal }

// settled reports whether no transition of the pod's lifecycle is due and its readiness gates have the
// right status. It is a fast check that is true for most pods.
func (p *Pod) settled() bool {
	return p.normal() && p.InPlaceGrace == "" && !p.traffic && (!p.inPlaceGate || p.InPlace.Status == corev1.ConditionTrue)
}

// ready reports whether a pod is running and Ready and not being updated.
func (p *Pod) ready() bool {
	return p.Phase == corev1.PodRunning && p.Ready.Status == corev1.ConditionTrue && p.InPlace.Status != corev1.ConditionFalse
}

// available reports whether a pod is available and, if it becomes so by time alone, after how long.
func (p *Pod) available(now time.Time, minReady time.Duration) (bool, time.Duration) {
	if !p.ready() || !p.normal() {
		return false, 0
	}
	if minReady == 0 {
		return true, 0
	}
	left := p.Ready.Since.Add(minReady).Sub(now)
	return left <= 0, max(left, 0)
}

// deletionCost returns the pod's deletion cost, 0 if the annotation is not a number in the form that
// ReplicaSets accept (KEP-2255): without a leading plus or zero.
func (p *Pod) deletionCost() int64 {
	cost := p.DeletionCost
	if cost == "" || cost[0] == '+' || cost[0] == '0' {
		return 0
	}
	n, err := strconv.ParseInt(cost, 10, 32)
	if err != nil {
		return 0
	}
	return n
}

// restarts returns the largest number of restarts of a container.
func (p *Pod) restarts() (most int) {
	for i := range p.Statuses {
		most = max(most, p.Statuses[i].Restarts)
	}
	return most
}

func (p *Pod) status(container string) *Status {
	for i := range p.Statuses {
		if p.Statuses[i].Name == container {
			return &p.Statuses[i]
		}
	}
	return nil
}
