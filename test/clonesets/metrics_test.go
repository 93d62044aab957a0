package clonesets_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
	"github.com/rehearse-k8s/rehearse/fault"
	controller "github.com/rehearse-k8s/rehearse/internal/controller/clonesets"
	"github.com/rehearse-k8s/rehearse/internal/controller/podcache"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/test/clonesets"
	"github.com/rehearse-k8s/rehearse/test/family"
)

// TestMetrics checks the counts of one set that is created, updated in place and deleted.
func TestMetrics(t *testing.T) {
	metrics := controller.NewMetrics()
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	runner := controller.Runner(controller.Options{Workers: 1, Writes: 1, Audit: -1, Metrics: metrics})
	runs := 0.0
	got := map[string]float64{}
	gather := func() {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		clear(got)
		for _, f := range families {
			for _, m := range f.Metric {
				labels := []string{}
				for _, l := range m.Label {
					labels = append(labels, l.GetValue())
				}
				got[f.GetName()+" "+strings.Join(labels, ",")] += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	simtest.Run(t, clonesets.Options().Seeds(1), func(w *simtest.World) {
		runs++
		set := clonesets.SetOf(3, v1alpha1.CloneSetSpec{
			UpdateStrategy:          v1alpha1.CloneSetUpdateStrategy{Type: v1alpha1.InPlaceIfPossible},
			ProgressDeadlineSeconds: ptr.To[int32](600),
		})
		w.Controller(clonesets.Actor, runner)
		w.Controller("kubelet", clonesets.Kubelet(nil))
		w.Create(set)
		w.Settle()
		w.Patch(set, types.MergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"web:2"}]}}}}`)
		w.Settle()
		if gather(); got["cloneset_controller_pods Normal"] != 3 {
			w.Fatalf("pods by state: %v", got)
		}
		w.Patch(set, types.MergePatchType, `{"spec":{"replicas":0}}`)
		w.Settle()
	})
	gather()
	for name, want := range map[string]float64{
		"cloneset_controller_writes_total pods,success,create":                3 * runs,
		"cloneset_controller_writes_total pods,success,delete":                3 * runs,
		"cloneset_controller_writes_total controllerrevisions,success,create": 2 * runs,
		"cloneset_controller_rollout_duration_seconds ":                       2 * runs,
		"cloneset_controller_pods Normal":                                     0,
		"cloneset_controller_cache_restarts_total ":                           0,
	} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s is %v, want %v (present: %t)", name, value, want, ok)
		}
	}
	if got["cloneset_controller_syncs_total success"] == 0 || got["cloneset_controller_sync_duration_seconds "] == 0 {
		t.Errorf("syncs are not counted: %v", got)
	}
}

// TestAudit loses the event of a pod's deletion for good, which no legal API does: the audit detects it, and
// another pod is created; also if a shared pod cache has lost the event.
func TestAudit(t *testing.T) {
	audited := func(pods *podcache.Cache) func(context.Context, *rest.Config) error {
		return controller.Runner(controller.Options{Workers: 1, Writes: 1, Audit: time.Minute, Pods: pods})
	}
	for name, runner := range map[string]func(context.Context, *rest.Config) error{"alone": audited(nil), "fed": family.Fed(audited)} {
		t.Run(name, func(t *testing.T) {
			simtest.Run(t, clonesets.Options().Seeds(40).Level(fault.Seen), func(w *simtest.World) {
				w.AllowDifferentOutcomes()
				w.Controller(clonesets.Actor, runner)
				w.Controller("kubelet", clonesets.Kubelet(nil))
				w.Faults(fault.Fault{Kind: fault.KindLoseEvent, Actor: clonesets.Actor, Resource: "pods"})
				w.Create(clonesets.SetOf(2, v1alpha1.CloneSetSpec{}))
				w.Settle()
				w.Delete(pods(w)[0])
				w.Eventually(5*time.Minute, setField("status.availableReplicas", 2))
			})
		})
	}
}

// TestAuditReadsByName checks a watch cache of the API server that has lost the deletion of a pod, so that a
// list shows the same as the controller's cache. The audit reads the pod by name, and another one is created.
func TestAuditReadsByName(t *testing.T) {
	run := func(audit time.Duration) func(*simtest.World) {
		return func(w *simtest.World) {
			w.AllowDifferentOutcomes()
			w.Controller(clonesets.Actor, family.StaleServer(controller.Runner(controller.Options{Workers: 1, Writes: 1, Audit: audit})))
			w.Controller("kubelet", clonesets.Kubelet(nil))
			w.Faults()
			w.Create(clonesets.SetOf(2, v1alpha1.CloneSetSpec{}))
			w.Settle()
			w.Delete(pods(w)[0])
			w.Eventually(5*time.Minute, invariant.Func("two pods", func(v invariant.View) error {
				if n := len(v.List("pods")); n != 2 {
					return fmt.Errorf("there are %d", n)
				}
				return nil
			}))
		}
	}
	simtest.Run(t, clonesets.Options().Seeds(3), run(time.Minute))
	if r := simtest.Explore(t, clonesets.Options().Seeds(3), run(-1)); r.Failure == nil {
		t.Error("another pod is created without the audit: this test proves nothing")
	}
}
