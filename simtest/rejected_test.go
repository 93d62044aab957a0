package simtest

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// TestRejectedRecreation: a fault deletes a ConfigMap in a namespace that is deleted meanwhile, so the API rejects the new
// one. The run does not count, and the controller is not blamed for it.
func TestRejectedRecreation(t *testing.T) {
	p, err := newPlayer(t, Options{}, func(w *World) {
		w.Disable("Deleted") // no controller removes the namespace
		w.Faults(fault.Fault{Kind: fault.KindRecreate})
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		w.Create(namespace, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"}})
		w.Delete(namespace)
		w.Controller("writer", writer)
		w.Eventually(time.Minute, invariant.Exists("configmaps", "n", "a"))
	})
	must(t, err)
	rejected := 0
	r, err := sim.Search(t.Context(), p, sim.Options{Seed: 1, Runs: 40, Progress: func(_ *sim.Result, out *sim.Outcome) {
		if slices.ContainsFunc(out.Run.Steps, func(s history.Step) bool {
			return s.Actor == history.OtherUser && s.Verb == "create" && s.Code == 403
		}) {
			rejected++
		}
	}})
	must(t, err)
	if r.Failure != nil {
		t.Error(r.Failure.Run.Failure)
	}
	for _, p := range r.Corpus {
		if len(p.Faults) > 0 {
			t.Errorf("later searches start from %s", p.Faults)
		}
	}
	if rejected == 0 || r.NotApplied != rejected {
		t.Errorf("%d creates were rejected, and %d runs do not count", rejected, r.NotApplied)
	}
}

// writer is a controller that writes to each ConfigMap of namespace n once.
func writer(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	list, err := client.CoreV1().ConfigMaps("n").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		list.Items[i].Data = map[string]string{"by": "writer"}
		_, _ = client.CoreV1().ConfigMaps("n").Update(ctx, &list.Items[i], metav1.UpdateOptions{})
	}
	<-ctx.Done()
	return nil
}
