package stages

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeResources are what a simulated node has unless something else is asked for: the stages of the built-in file
// node-fast set the same.
func NodeResources() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("1k"),
		corev1.ResourceMemory: resource.MustParse("1Ti"),
		corev1.ResourcePods:   resource.MustParse("1M"),
	}
}

// ReadyNode returns a node as a kubelet registers it, with everything that the stage of a new node would set,
// so that no stage is due.
func ReadyNode(name string, now time.Time) *corev1.Node {
	since := metav1.NewTime(now)
	resources := NodeResources()
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{SimulatedAnnotation: SimulatedAnnotationValue},
			Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
			},
		},
		Status: corev1.NodeStatus{
			Phase: corev1.NodeRunning, Capacity: resources, Allocatable: resources,
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}},
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
				Message: "kubelet is posting ready status", LastHeartbeatTime: since, LastTransitionTime: since,
			}},
			NodeInfo: corev1.NodeSystemInfo{Architecture: "amd64", OperatingSystem: "linux", KubeletVersion: "v1.36.3"},
		},
	}
}
