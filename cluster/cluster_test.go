package cluster_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rehearse-k8s/rehearse/cluster"
)

// TestOnlyTheStageEngine runs two clusters in one process, each with only the API and the stage engine. The
// parts of one do not affect the other.
func TestOnlyTheStageEngine(t *testing.T) {
	for _, name := range []string{"one", "two"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startCluster(t, cluster.Options{Name: name, Nodes: 1, Controllers: []string{"stage"}})
			k, err := kubernetes.NewForConfig(c.RESTConfig())
			if err != nil {
				t.Fatal(err)
			}
			await(t, "the node is Ready", func() error {
				n, err := k.CoreV1().Nodes().Get(t.Context(), "node-0", metav1.GetOptions{})
				if err != nil {
					return err
				}
				for _, c := range n.Status.Conditions {
					if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
						return nil
					}
				}
				return fmt.Errorf("conditions %v", n.Status.Conditions)
			})
			await(t, "the node's lease is kept", func() error {
				_, err := k.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), "node-0", metav1.GetOptions{})
				return err
			})
			// No service account controller runs, so pods that name a service account are rejected.
			accounts, err := k.CoreV1().ServiceAccounts("default").List(t.Context(), metav1.ListOptions{})
			if err != nil || len(accounts.Items) != 0 {
				t.Errorf("service accounts %d, %v: a controller runs that was not picked", len(accounts.Items), err)
			}
			if got := c.Kubeconfig().CurrentContext; got != "rehearse-"+name {
				t.Errorf("context %q", got)
			}
		})
	}
}
