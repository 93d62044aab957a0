package usage

import (
	"math"
	"math/bits"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apitypes "k8s.io/apimachinery/pkg/types"
)

// Totals integrates usage over time: for CPU in core-seconds, as a kubelet's cumulative CPU usage. Like KWOK, it adds at each observation
// the time since the previous one times the usage now; unlike KWOK, it starts at the start of the container, so the first
// observation counts. A container that restarts and a pod that is created again start at 0. The zero value is ready to use.
type Totals struct {
	containers map[usageKey]total
	nodes      map[nodeKey]total
	started    map[apitypes.UID]*started // by node
}

type nodeKey struct {
	uid      apitypes.UID
	resource corev1.ResourceName
}

// total is an exact sum of usage times time, in 128 bits: rounding errors of single observations do not add up.
type total struct {
	started, at time.Time
	high, low   uint64 // units of the resource times nanoseconds
}

// unit is the precision of a usage in a total.
func unit(name corev1.ResourceName) resource.Scale {
	if name == corev1.ResourceCPU {
		return resource.Nano
	}
	return resource.Milli
}

// add integrates a constant usage from the last observation to now. A clock that goes backwards adds nothing.
func (t total) add(name corev1.ResourceName, usage resource.Quantity, now time.Time) total {
	elapsed := now.Sub(t.at)
	if elapsed <= 0 {
		return t
	}
	high, low := bits.Mul64(uint64(max(units(name, usage), 0)), uint64(elapsed))
	var carry uint64
	t.low, carry = bits.Add64(t.low, low, 0)
	t.high, _ = bits.Add64(t.high, high, carry)
	t.at = now
	return t
}

// units is a usage in units of the resource, at most the largest integer.
func units(name corev1.ResourceName, usage resource.Quantity) int64 {
	scale := unit(name)
	if usage.AsApproximateFloat64()*math.Pow10(-int(scale)) >= math.MaxInt64 {
		return math.MaxInt64
	}
	return usage.ScaledValue(scale)
}

// perSecond is how much of a total one second with a usage of 1 is.
func perSecond(name corev1.ResourceName) float64 {
	return math.Pow10(-int(unit(name))) * float64(time.Second)
}

// seconds is the total in units of the resource's quantity times seconds.
func (t total) seconds(name corev1.ResourceName) float64 {
	return (math.Ldexp(float64(t.high), 64) + float64(t.low)) / perSecond(name)
}

// container integrates the usage of a container up to now.
func (t *Totals) container(key usageKey, started time.Time, usage resource.Quantity, now time.Time) float64 {
	sum, ok := t.containers[key]
	if !ok || !sum.started.Equal(started) {
		sum = total{started: started, at: started}
	}
	sum = sum.add(key.resource, usage, now)
	if t.containers == nil {
		t.containers = map[usageKey]total{}
	}
	t.containers[key] = sum
	return sum.seconds(key.resource)
}

// node integrates the usage of a node up to now. It starts with the sum of its containers' totals, and it does not fall when a pod is
// deleted.
func (t *Totals) node(key nodeKey, usage resource.Quantity, containers float64, now time.Time) float64 {
	sum, ok := t.nodes[key]
	if ok {
		sum = sum.add(key.resource, usage, now)
	} else {
		sum = startAt(key.resource, containers, now)
	}
	if t.nodes == nil {
		t.nodes = map[nodeKey]total{}
	}
	t.nodes[key] = sum
	return sum.seconds(key.resource)
}

// startAt returns a total with a number of seconds.
func startAt(name corev1.ResourceName, seconds float64, now time.Time) total {
	n := seconds * perSecond(name)
	high := math.Floor(math.Ldexp(n, -64))
	return total{started: now, at: now, high: uint64(high), low: uint64(n - math.Ldexp(high, 64))}
}

// Retain forgets the totals of all pods and nodes whose UIDs exists does not contain.
func (t *Totals) Retain(exists func(apitypes.UID) bool) {
	for key := range t.containers {
		if !exists(key.uid) {
			delete(t.containers, key)
		}
	}
	for key := range t.nodes {
		if !exists(key.uid) {
			delete(t.nodes, key)
		}
	}
	for uid := range t.started {
		if !exists(uid) {
			delete(t.started, uid)
		}
	}
}

// ContainerTotal returns the integral of the usage of a running container.
func (p *Plan) ContainerTotal(pod *corev1.Pod, c Container, name corev1.ResourceName) (float64, error) {
	q, err := p.resource(p.view.Rule(pod.Namespace, pod.Name, c.Name), pod, c.Name, name)
	if err != nil {
		return 0, err
	}
	return p.totals.container(usageKey{pod.UID, c.Name, name}, c.Started, q, p.view.Now), nil
}

// NodeTotal returns the integral of the usage of a node, from its usage now and the sum of the totals of its containers.
func (p *Plan) NodeTotal(node *corev1.Node, name corev1.ResourceName, usage resource.Quantity, containers float64) float64 {
	return p.totals.node(nodeKey{node.UID, name}, usage, containers, p.view.Now)
}

// cumulativeOf implements CumulativeUsage.
func (p *Plan) cumulativeOf(object any, name, container string) (float64, error) {
	resource := corev1.ResourceName(name)
	containers, err := p.sum(object, container, func(pod *corev1.Pod, c Container) (float64, error) {
		return p.ContainerTotal(pod, c, resource)
	})
	node, ok := object.(corev1.Node)
	if err != nil || !ok {
		return containers, err
	}
	usage, err := p.usageOf(object, name, "")
	if err != nil {
		return 0, err
	}
	return p.NodeTotal(&node, resource, fromNumber(resource, usage), containers), nil
}
