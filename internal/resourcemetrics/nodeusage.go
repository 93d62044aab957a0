package resourcemetrics

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/rehearse-k8s/rehearse/internal/usage"
)

// NodeUsage is a node and the usage of the pods that are bound to it. Callers must not modify the objects.
type NodeUsage struct {
	Node *corev1.Node
	Pods []PodUsage // in any order
}

// PodUsage is the usage of the running containers of a pod.
type PodUsage struct {
	Pod        *corev1.Pod
	Containers []ContainerUsage
	// Err is the error of the usage's expression; then there are no containers.
	Err error
}

// ContainerUsage is the memory that a container uses.
type ContainerUsage struct {
	Name   string
	Memory resource.Quantity
}

// NodeUsages returns the usage of the nodes with these names at one moment. A node that does not exist is left out.
func (s *Source) NodeUsages(ctx context.Context, names []string) ([]NodeUsage, error) {
	r, err := s.begin(ctx, metav1.NamespaceAll, "")
	if err != nil {
		return nil, err
	}
	all := metav1.ListOptions{}
	if len(names) == 1 {
		all.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, names[0]).String()
	}
	if err := r.readNodes(all); err != nil {
		return nil, err
	}
	if err := r.readPodsByNode(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	plan := s.plan(r)
	var out []NodeUsage
	for _, name := range names {
		node := r.nodes[name]
		if node == nil {
			continue
		}
		n := NodeUsage{Node: node}
		for _, pod := range r.podsByNode[name] {
			p := PodUsage{Pod: pod}
			usages, err := plan.Pod(pod)
			if err != nil {
				p.Err = err
			} else {
				for i, c := range usage.Running(pod) {
					p.Containers = append(p.Containers, ContainerUsage{c.Name, usages[i].Usage[corev1.ResourceMemory]})
				}
			}
			n.Pods = append(n.Pods, p)
		}
		out = append(out, n)
	}
	return out, r.err
}
