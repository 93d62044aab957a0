package clonesets_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/fault"
	controller "github.com/rehearse-k8s/rehearse/internal/controller/clonesets"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/test/clonesets"
)

// TestPodSuccessor replaces a pod by another one with the same name while a patch of the first is in flight,
// as it may be for any time. The API server answers such a patch with 422, not 409: no write of the controller
// changes the second pod, and its status does not report a rejected update.
func TestPodSuccessor(t *testing.T) {
	simtest.Run(t, clonesets.Options().Seeds(60), func(w *simtest.World) {
		set := clonesets.SetOf(1, v1alpha1.CloneSetSpec{UpdateStrategy: v1alpha1.CloneSetUpdateStrategy{Type: v1alpha1.InPlaceIfPossible}})
		w.Controller(clonesets.Actor, func(ctx context.Context, config *rest.Config) error {
			return controller.Runner(controller.Options{Workers: 1, Writes: 1, Audit: -1, Events: config})(ctx, config)
		})
		w.Controller("kubelet", clonesets.Kubelet(nil))
		w.Faults(
			fault.Fault{Kind: fault.KindLateRequest, Actor: clonesets.Actor, Verb: "patch", Resource: "pods"},
			fault.Fault{Kind: fault.KindLag, Actor: clonesets.Actor, Resource: "pods"},
		)
		w.AllowDifferentOutcomes()
		w.Always(invariant.Func("no write is reported as rejected", func(v invariant.View) error {
			if set := v.Get("clonesets.apps.kruise.io", "default", "web"); set != nil && strings.Contains(fmt.Sprint(set.Object["status"]), "WriteFailed") {
				return fmt.Errorf("its status is %v", set.Object["status"])
			}
			return nil
		}))
		w.Create(set)
		w.Settle()
		w.Patch(set, types.MergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"web:2"}]}}}}`)
		w.Advance(100 * time.Millisecond)
		client, err := kubernetes.NewForConfig(w.Config())
		if err != nil {
			w.Fatalf("%v", err)
		}
		next := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "theirs"}}}}
		for _, p := range pods(w)[:1] {
			next.Name, next.Namespace = p.Name, p.Namespace
			if err := client.CoreV1().Pods(p.Namespace).Delete(context.Background(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
				w.Fatalf("%v", err)
			}
		}
		w.Create(next)
		w.Advance(2 * time.Minute)
		w.Get(next)
		for _, s := range w.View().Run().Steps {
			if s.Wrote() && s.Actor == clonesets.Actor && s.UID == string(next.UID) {
				w.Fatalf("step %d: %s %s is for the first pod", s.N, s.Verb, s.Name)
			}
		}
	})
}
