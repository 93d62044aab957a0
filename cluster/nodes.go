package cluster

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/controller/stages"
)

// nodeWriters is the number of nodes that are created in parallel; more is not faster on two cores.
const nodeWriters = 8

// ensureNodes creates those of node-0 to node-(n-1) that do not exist.
func ensureNodes(ctx context.Context, config *rest.Config, n int) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(nodeWriters)
	for i := range n {
		group.Go(func() error {
			_, err := client.CoreV1().Nodes().Create(ctx, simulatedNode(fmt.Sprintf("node-%d", i)), metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
	}
	return group.Wait()
}

// simulatedNode is a node with the labels that a kubelet sets, the role that kubectl prints, and its resources: a kubelet
// registers itself with them, and admission rejects the resize of a pod on a node that it has seen only without
// them. The stages set its conditions.
func simulatedNode(name string) *corev1.Node {
	resources := stages.NodeResources()
	return &corev1.Node{Status: corev1.NodeStatus{Capacity: resources, Allocatable: resources}, ObjectMeta: metav1.ObjectMeta{
		Name:        name,
		Annotations: map[string]string{stages.SimulatedAnnotation: stages.SimulatedAnnotationValue},
		Labels: map[string]string{
			corev1.LabelHostname:            name,
			corev1.LabelOSStable:            "linux",
			corev1.LabelArchStable:          "amd64",
			"beta.kubernetes.io/os":         "linux", // kubelets still set both, and the
			"beta.kubernetes.io/arch":       "amd64", // node lifecycle controller adds them when missing
			"node-role.kubernetes.io/agent": "",
			"type":                          "rehearse",
		},
	}}
}
