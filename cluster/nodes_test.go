package cluster_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rehearse-k8s/rehearse/cluster"
)

// TestNodesAreRegisteredWithResources runs no stage, so the node is as it was registered. While a node has no
// resources, admission rejects the resize of its pods.
func TestNodesAreRegisteredWithResources(t *testing.T) {
	t.Parallel()
	c := startCluster(t, cluster.Options{Name: "registered", Nodes: 1, Controllers: []string{"serviceaccount-controller"}})
	k, err := client.New(c.RESTConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{}
	if err := k.Get(t.Context(), client.ObjectKey{Name: "node-0"}, node); err != nil {
		t.Fatal(err)
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods} {
		for list, resources := range map[string]corev1.ResourceList{"capacity": node.Status.Capacity, "allocatable": node.Status.Allocatable} {
			if resources.Name(name, "").IsZero() {
				t.Errorf("%s has no %s: %v", list, name, resources)
			}
		}
	}
}
