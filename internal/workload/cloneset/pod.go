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

// Pod is all that a plan reads of a pod, and there is nothing else that it could read. So
// an update that leaves it the same (Same) cannot change a plan, and needs to wake nobody:
// what others filter by a list of cases (kruise #2057, #2473) holds here by
// construction.
//
// Maps and slices are those of the object that it was made from, and are not changed.
type Pod struct {
	Namespace, Name string
	UID             types.UID
	// ResourceVersion is for the preconditions of writes. Nothing is decided by it, and
	// Same does not look at it.
	ResourceVersion string

	// Controller is the UID of the pod's controller, "" if it has none.
	Controller  types.UID
	Labels      map[string]string
	Finalizers  []string
	Created     time.Time
	Terminating bool

	// The annotations, as they are.
	DeletionCost, InPlaceState, InPlaceGrace, StateSince string
	// Ordered are the annotations that the InPlaceGrace is to change, as they are.
	Ordered map[string]string

	Node string
	// Claims are the names of those that a pod without a node mounts: of one that has a node,
	// the API keeps them from being deleted.
	Claims     []string
	Phase      corev1.PodPhase
	Gates      []string
	Containers []Container
	Statuses   []Status
	// Behind is by how many generations the kubelet's status is older than the spec; 0 also where
	// kubelets do not report that.
	Behind int64
	// Grace is the time that a container gets to terminate.
	Grace   time.Duration
	Ready   Condition
	InPlace Condition // apps.ConditionInPlaceUpdateReady
	Traffic Condition // apps.ConditionPodReady

	read
}

// read is what follows from the rest, worked out once: plans look at it many times, and to
// look something up in a map costs more.
type read struct {
	state                kruise.LifecycleState
	instance, revision   string
	marked               bool // somebody asked for its deletion, by label
	inPlaceGate, traffic bool
	// active: it counts, because it has neither finished nor is being deleted.
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
	// Started is when the container that runs started; zero if none runs.
	Started   time.Time
	Resources *corev1.ResourceRequirements
}

// Condition is a condition of a pod; one that it does not have is the zero value.
type Condition struct {
	Status  corev1.ConditionStatus
	Since   time.Time
	Message string
}

// View makes the Pod of an object.
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

// Same tells whether a plan can see no difference between two.
func (p *Pod) Same(q *Pod) bool {
	a, b := *p, *q
	a.ResourceVersion, b.ResourceVersion = "", ""
	return reflect.DeepEqual(a, b)
}

// normal tells whether a pod is in no step of its life: one that bears no state is
// Kruise's of before the states, or was adopted.
func (p *Pod) normal() bool { return p.state == "" || p.state == kruise.StateNormal }

// settled tells whether nothing of a pod's life is due and its readiness gates say what they
// are to say. It is that of most pods, and sees that sooner than those who know what to do.
func (p *Pod) settled() bool {
	return p.normal() && p.InPlaceGrace == "" && !p.traffic && (!p.inPlaceGate || p.InPlace.Status == corev1.ConditionTrue)
}

// ready tells whether a pod is up and not being updated.
func (p *Pod) ready() bool {
	return p.Phase == corev1.PodRunning && p.Ready.Status == corev1.ConditionTrue && p.InPlace.Status != corev1.ConditionFalse
}

// available tells whether users can count on a pod, and if it is only a matter of time,
// how long that is.
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

// deletionCost is 0 for what is no number, as with ReplicaSets (KEP-2255); there, neither a
// plus nor zeros may lead.
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

// restarts are those of the container that has had most.
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
