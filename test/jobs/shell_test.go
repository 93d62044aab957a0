package jobs_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	controller "github.com/rehearse-k8s/rehearse/controller/jobs"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/test/jobs"
	planner "github.com/rehearse-k8s/rehearse/workload/job"
)

// TestTakenName lets somebody else's pod bear the name that the first pod of a Job was to
// get: it is left alone, and the Job's pod gets another name.
func TestTakenName(t *testing.T) {
	simtest.Run(t, simtest.Seeds(100), func(w *simtest.World) {
		j := pi(1, 1)
		j.Spec.Suspend = ptr.To(true)
		w.Controller("job", ours)
		w.Kubelet()
		w.Faults(jobs.AnyFault()...)
		w.Eventually(5*time.Minute, invariant.Condition("jobs.batch", "default", "pi", "Complete", "True"))
		w.Create(j)
		resumed := j.DeepCopy()
		resumed.Spec.Suspend = ptr.To(false)
		d := planner.Plan(w.Now(), planner.State{Job: resumed, Limits: planner.DefaultLimits})
		name := d.Actions[0].Object.GetName()
		w.Create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "theirs"}}},
		})
		w.Eventually(5*time.Minute, invariant.Field("pods", "default", name, "spec.containers[0].image", "theirs"))
		w.Patch(j, types.MergePatchType, `{"spec":{"suspend":false}}`)
	})
}

// TestSlowStart refuses every pod: one is tried at a time, with growing waits, and an
// Event says why. Then pods are let through again, and more are made at once.
func TestSlowStart(t *testing.T) {
	withEvents := func(ctx context.Context, config *rest.Config) error {
		return controller.Runner(controller.Options{All: true, Workers: 1, Writes: 1, Audit: -1, Events: config})(ctx, config)
	}
	simtest.Run(t, simtest.Seeds(1), func(w *simtest.World) {
		j := pi(20, 20)
		j.Spec.Template.Spec.PriorityClassName = "none-of-these"
		w.Controller("job", withEvents)
		w.Create(j)
		w.Advance(10 * time.Minute)
		tries := 0
		for _, s := range w.View().Run().Steps {
			if s.Verb == "create" && s.Resource == "pods" && s.Kind == history.Request {
				tries++
			}
		}
		if tries < 5 || tries > 25 {
			w.Fatalf("%d pods were tried in ten minutes", tries)
		}
		if !slices.ContainsFunc(w.View().List("events"), isAbout("FailedCreate")) {
			w.Fatalf("no Event says that pods are refused")
		}
	})
}

// TestEvents: what `kubectl describe job` shows.
func TestEvents(t *testing.T) {
	withEvents := func(ctx context.Context, config *rest.Config) error {
		return controller.Runner(controller.Options{All: true, Workers: 1, Writes: 1, Audit: -1, Events: config})(ctx, config)
	}
	simtest.Run(t, simtest.Seeds(1), func(w *simtest.World) {
		j := pi(1, 1)
		w.Controller("job", withEvents)
		w.Kubelet()
		w.Create(j)
		w.Settle()
		for _, reason := range []string{"SuccessfulCreate", "Completed"} {
			if !slices.ContainsFunc(w.View().List("events"), isAbout(reason)) {
				w.Fatalf("there is no Event %s", reason)
			}
		}
	})
}

// TestMetrics wants upstream's names, and the counts of one Job.
func TestMetrics(t *testing.T) {
	metrics := controller.NewMetrics()
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	runner := controller.Runner(controller.Options{All: true, Workers: 1, Writes: 1, Audit: -1, Metrics: metrics})
	runs := 0
	simtest.Run(t, simtest.Seeds(1), func(w *simtest.World) {
		runs++
		j := pi(2, 3)
		w.Controller("job", runner)
		w.Kubelet()
		w.Create(j)
	})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			labels := []string{}
			for _, l := range m.Label {
				labels = append(labels, l.GetValue())
			}
			value := m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			got[f.GetName()+" "+strings.Join(labels, ",")] += value
		}
	}
	n := float64(runs)
	for name, want := range map[string]float64{
		"job_controller_jobs_finished_total NonIndexed,CompletionsReached,succeeded": n,
		"job_controller_job_pods_finished_total NonIndexed,succeeded":                3 * n,
		"job_controller_job_pods_creation_total new,succeeded":                       3 * n,
		"job_controller_terminated_pods_tracking_finalizer_total add":                3 * n,
		"job_controller_terminated_pods_tracking_finalizer_total delete":             3 * n,
		"job_controller_pods_beyond_plan_total ":                                     0,
	} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s is %v, want %v (present: %t)", name, value, want, ok)
		}
	}
	if got["job_controller_job_syncs_total pods_created,NonIndexed,success"] == 0 || got["job_controller_job_sync_duration_seconds tracking,NonIndexed,success"] == 0 {
		t.Errorf("syncs are not counted: %v", got)
	}
}

func isAbout(reason string) func(*unstructured.Unstructured) bool {
	return func(e *unstructured.Unstructured) bool { return e.Object["reason"] == reason }
}
