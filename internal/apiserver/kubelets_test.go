package apiserver_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestNoKubelet: without a kubelet at the address of a node, the answer says so.
func TestNoKubelet(t *testing.T) {
	c, ctx := client(t, shared), t.Context()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "silent"}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = 1
	made, err := c.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err == nil {
		made.Status = node.Status
		_, err = c.CoreV1().Nodes().UpdateStatus(ctx, made, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "silent"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "silent"},
		Spec:       corev1.PodSpec{NodeName: "silent", ServiceAccountName: "silent", Containers: []corev1.Container{{Name: "main", Image: "x"}}},
	}
	if _, err := c.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := shared.RESTConfig("test")
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	json, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = json.CoreV1().Pods("default").GetLogs("silent", &corev1.PodLogOptions{}).Stream(ctx)
	if err := contains(err, "answers only for nodes with the annotation kwok.x-k8s.io/node=fake"); err != nil {
		t.Error(err)
	}
}
