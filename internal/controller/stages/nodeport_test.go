package stages

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/stage"
)

// TestNodePort renders the template function NodePort for an engine: it is the engine's option, not always 0.
func TestNodePort(t *testing.T) {
	stages, err := stage.Load("node.yaml", []byte(`
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: endpoint}
spec:
  resourceRef: {kind: Node}
  selector: {matchExpressions: [{key: .metadata.name, operator: Exists}]}
  next: {statusTemplate: 'daemonEndpoints: {kubeletEndpoint: {Port: {{ NodePort }}}}'}
`))
	if err != nil {
		t.Fatal(err)
	}
	set, err := stage.Compile(stages)
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range []int{0, 10250} {
		now := time.Unix(0, 0)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0", UID: "uid-node"}}
		node.Status.DaemonEndpoints.KubeletEndpoint.Port = 1
		decision := set.Decide(now, 1, node, stage.Past{}, stage.Scene{})
		effects, err := set.Play(now, node, decision, facts{&StageEngine{options: StageOptions{NodePort: port}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := effects.Object.(*corev1.Node).Status.DaemonEndpoints.KubeletEndpoint.Port; int(got) != port {
			t.Errorf("port %d, want %d", got, port)
		}
	}
}
