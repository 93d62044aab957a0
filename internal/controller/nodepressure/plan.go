package nodepressure

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// systemCritical is the lowest priority of pods that a kubelet never evicts (scheduling.SystemCriticalPriority).
const systemCritical = 2_000_000_000

// State is what Decide reads about one node.
type State struct {
	Settings
	Now time.Time
	// Capacity is the memory of the node, in bytes. 0: it is not known, and nothing is decided.
	Capacity int64
	// Pods are the pods of the node that have not terminated.
	Pods []Pod
	// LastPressure is when the last decision for this node with a pressure was made; zero: never.
	LastPressure time.Time
}

// Pod is a pod and its usage.
type Pod struct {
	*corev1.Pod
	// Measured reports whether the usage is known: a container runs.
	Measured   bool
	Containers []Container
}

// Container is the memory that a container uses, in bytes.
type Container struct {
	Name   string
	Memory int64
}

func (p *Pod) memory() (sum int64) {
	for _, c := range p.Containers {
		sum += c.Memory
	}
	return sum
}

// request is the memory that the scheduler reserves for the pod, in bytes.
func (p *Pod) request() int64 {
	requests := resourcehelper.PodRequests(p.Pod, resourcehelper.PodResourcesOptions{})
	return requests.Memory().Value()
}

func (p *Pod) priority() int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

// isCritical reports whether a kubelet never evicts the pod: a static pod, its mirror, or one with a critical priority.
func (p *Pod) isCritical() bool {
	source := p.Annotations["kubernetes.io/config.source"]
	return p.Annotations[corev1.MirrorPodAnnotationKey] != "" || source != "" && source != "api" || p.priority() >= systemCritical
}

// Decision is what happens to a node.
type Decision struct {
	// Pressure is whether the condition MemoryPressure is true. It stays true for a while after the last pressure.
	Pressure bool
	// LastPressure is the State's for the next decision.
	LastPressure time.Time
	// Evict is the pod to evict, nil if there is none, and Message the reason, in a kubelet's words.
	Evict   *corev1.Pod
	Message string
}

// Decide decides as the eviction manager of a kubelet does (k8s.io/kubernetes/pkg/kubelet/eviction): below the threshold
// it evicts the first pod of the order that Node-pressure Eviction documents, at most one per decision.
func Decide(s State) Decision {
	available := s.Capacity
	for i := range s.Pods {
		available -= s.Pods[i].memory()
	}
	available = max(available, 0)
	threshold := s.Of(s.Capacity)
	if s.Capacity <= 0 || available >= threshold {
		return Decision{Pressure: !s.LastPressure.IsZero() && s.Now.Sub(s.LastPressure) < s.Transition, LastPressure: s.LastPressure}
	}
	d := Decision{Pressure: true, LastPressure: s.Now}
	for _, p := range inOrder(s.Pods) {
		if p.isCritical() {
			continue
		}
		d.Evict = p.Pod
		d.Message = fmt.Sprintf("The node was low on resource: memory. Threshold quantity: %s, available: %s. ", quantity(threshold), quantity(available)) + exceeding(p)
		return d
	}
	return d
}

// inOrder returns the pods in the order of eviction: those without a measurement first, then those that use more than
// they request, the lowest priority first, and the largest usage above the request first (rankMemoryPressure of the
// kubelet). Equal pods are ordered by name, so that the order depends on nothing else.
func inOrder(pods []Pod) []*Pod {
	order := make([]*Pod, len(pods))
	above := make(map[*Pod]int64, len(pods))
	for i := range pods {
		order[i] = &pods[i]
		above[order[i]] = pods[i].memory() - pods[i].request()
	}
	slices.SortFunc(order, func(a, b *Pod) int {
		return cmp.Or(
			first(!a.Measured, !b.Measured),
			first(above[a] > 0, above[b] > 0),
			cmp.Compare(a.priority(), b.priority()),
			cmp.Compare(above[b], above[a]),
			strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name),
		)
	})
	return order
}

// first orders what is true before what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// exceeding says which containers use more than they request.
func exceeding(p *Pod) string {
	var b strings.Builder
	for _, c := range p.Containers {
		for _, spec := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
			request := spec.Resources.Requests[corev1.ResourceMemory]
			if spec.Name == c.Name && c.Memory > request.Value() {
				fmt.Fprintf(&b, "Container %s was using %s, request is %s, has larger consumption of memory. ", c.Name, quantity(c.Memory), request.String())
			}
		}
	}
	return b.String()
}

func quantity(n int64) string { return resource.NewQuantity(n, resource.BinarySI).String() }
