package apiserver_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/store"
)

// TestPodTransform: the server's own informer of pods calls Options.Pods for a new pod.
func TestPodTransform(t *testing.T) {
	seen := make(chan *corev1.Pod, 10)
	s, err := apiserver.Start(t.Context(), apiserver.Options{
		Dir: t.TempDir(), Backend: apiserver.Memory{Worlds: store.New(store.Options{})}, WatchCache: true,
		Settings: apiserver.Settings{AdmissionPlugins: []string{"-ServiceAccount"}}, // no controller creates the account
		Pods: func(obj any) (any, error) {
			if p, ok := obj.(*corev1.Pod); ok {
				seen <- p
			}
			return obj, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
	if _, err := client(t, s).CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case p := <-seen:
		if p.Name != "a" {
			t.Errorf("the informer received pod %s", p.Name)
		}
	case <-time.After(20 * time.Second):
		t.Error("the informer has not received the pod")
	}
}
