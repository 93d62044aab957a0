package stage

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// healthyNode are the conditions of a healthy node, in a kubelet's words
// (pkg/kubelet/nodestatus/setters.go) and a cloud route controller's.
var healthyNode = []corev1.NodeCondition{
	{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"},
	{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available"},
	{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure"},
	{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available"},
	{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: "RouteCreated", Message: "RouteController created a route"},
}

// What a simulated node has that does not say otherwise.
var (
	defaultCPU    = resource.MustParse("1k")
	defaultMemory = resource.MustParse("1Ti")
	defaultPods   = resource.MustParse("1M")
)

// initializeNode is the template of node-initialize.
func initializeNode(o Object, m moment) error {
	n := o.(*corev1.Node)
	status := &n.Status
	status.Phase = corev1.NodeRunning
	status.Conditions = healthyConditions(status.Conditions, m)
	if len(status.Addresses) == 0 {
		ips, err := m.facts.NodeIPs(n.Name)
		if err != nil {
			return err
		}
		for _, ip := range ips {
			status.Addresses = append(status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
		}
		status.Addresses = append(status.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: n.Name})
	}
	capacity := corev1.ResourceList{corev1.ResourceCPU: defaultCPU, corev1.ResourceMemory: defaultMemory, corev1.ResourcePods: defaultPods}
	fill(capacity, status.Capacity)
	allocatable := corev1.ResourceList{}
	fill(allocatable, capacity)
	fill(allocatable, status.Allocatable)
	status.Capacity, status.Allocatable = capacity, allocatable

	info := &status.NodeInfo
	setDefault(&info.Architecture, "amd64")
	setDefault(&info.OperatingSystem, "linux")
	setDefault(&info.KernelVersion, "rehearse")
	setDefault(&info.OSImage, "rehearse (simulated)")
	setDefault(&info.ContainerRuntimeVersion, "rehearse://simulated")
	if info.KubeletVersion == "" {
		info.KubeletVersion = m.facts.Version()
	}
	return nil
}

// healthyConditions replaces the conditions a kubelet owns and keeps the rest.
func healthyConditions(before []corev1.NodeCondition, m moment) []corev1.NodeCondition {
	now := seconds(m.now)
	out := append(make([]corev1.NodeCondition, 0, len(before)+len(healthyNode)), before...)
next:
	for _, c := range healthyNode {
		c.LastHeartbeatTime, c.LastTransitionTime = now, now
		for i := range out {
			if out[i].Type != c.Type {
				continue
			}
			if out[i].Status == c.Status && !out[i].LastTransitionTime.IsZero() {
				c.LastTransitionTime = out[i].LastTransitionTime
			}
			out[i] = c
			continue next
		}
		out = append(out, c)
	}
	return out
}

func fill(into, from corev1.ResourceList) {
	for name, quantity := range from {
		into[name] = quantity
	}
}

func setDefault(field *string, value string) {
	if *field == "" {
		*field = value
	}
}
