package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	kcm "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
	"k8s.io/kubernetes/pkg/controller"

	"github.com/rehearse-k8s/rehearse/internal/controller/podcache"
)

// TestPodsOfNodeAreRemembered: upstream's controllers add their index of pods by node to an informer that remembers its results.
func TestPodsOfNodeAreRemembered(t *testing.T) {
	list := []string{names.NodeLifecycleController}
	settings, err := controllerSettings(list, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	config := &rest.Config{}
	c, err := controllerContext(t.Context(), config, podcache.Unconnected(), settings)
	if err != nil {
		t.Fatal(err)
	}
	only := map[string]*kcm.ControllerDescriptor{list[0]: kcm.NewControllerDescriptors()[list[0]]}
	if _, err := kcm.BuildControllers(t.Context(), c, only, nil, noHealthz{}); err != nil {
		t.Fatal(err)
	}
	pods := c.InformerFactory.Core().V1().Pods().Informer().GetIndexer()
	if err := pods.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: corev1.PodSpec{NodeName: "n"}}); err != nil {
		t.Fatal(err)
	}
	first, err := pods.ByIndex(controller.PodNodeNameKeyIndex, "n")
	if err != nil || len(first) != 1 {
		t.Fatalf("%d pods on the node, error %v", len(first), err)
	}
	if second, _ := pods.ByIndex(controller.PodNodeNameKeyIndex, "n"); &second[0] != &first[0] {
		t.Error("the pods of a node are read again although none has changed")
	}
}
