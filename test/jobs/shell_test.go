package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	controller "github.com/rehearse-k8s/rehearse/internal/controller/jobs"
	planner "github.com/rehearse-k8s/rehearse/internal/workload/job"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/simtest/kubecontrollers"
	"github.com/rehearse-k8s/rehearse/test/family"
	"github.com/rehearse-k8s/rehearse/test/jobs"
)

// TestTakenName gives another owner's pod the name of a Job's first pod: the controller leaves it alone, and
// the Job's pod gets another name.
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

// TestSlowStart rejects every pod: the controller tries one at a time, with growing waits, and emits an Event
// with the reason. When pods are accepted again, it creates several at once.
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
		if tries := len(creates(w)); tries < 5 || tries > 25 {
			w.Fatalf("%d pods were tried in ten minutes", tries)
		}
		if !slices.ContainsFunc(w.View().List("events"), isAbout("FailedCreate")) {
			w.Fatalf("no Event reports that pods are rejected")
		}
	})
}

// creates returns the requests to create pods.
func creates(w *simtest.World) (tries []history.Step) {
	for _, s := range w.View().Run().Steps {
		if s.Verb == "create" && s.Resource == "pods" && s.Kind == history.Request && s.Actor == "job" {
			tries = append(tries, s)
		}
	}
	return tries
}

// TestTerminatingNamespace checks a namespace that rejects new pods because it is terminating: until the Job
// is deleted with it, the controller tries seldom.
func TestTerminatingNamespace(t *testing.T) {
	simtest.Run(t, simtest.Seeds(1), func(w *simtest.World) {
		j := pi(1, 1)
		j.Namespace, j.Spec.Suspend = "going", ptr.To(true)
		w.Controller("job", ours)
		w.AllowDifferentOutcomes()
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "going"}}
		w.Create(namespace, j)
		w.Settle()
		w.Delete(namespace)
		w.Patch(j, types.MergePatchType, `{"spec":{"suspend":false}}`)
		w.Advance(10 * time.Minute)
		tries := creates(w)
		if len(tries) == 0 {
			w.Fatalf("no pod was tried")
		}
		if len(tries) > 25 || tries[0].Code != http.StatusForbidden {
			w.Fatalf("%d pods were tried in ten minutes, and the first was answered %d", len(tries), tries[0].Code)
		}
		w.Controller("namespace", kubecontrollers.Namespace)
		w.Eventually(10*time.Minute, invariant.Gone("namespaces", "", "going"))
	})
}

// TestThrottledCreate rejects a pod for now, and the user suspends the Job before the controller may try
// again: it must not create the pod then.
func TestThrottledCreate(t *testing.T) {
	simtest.Run(t, simtest.Seeds(20), func(w *simtest.World) {
		j := pi(1, 1)
		w.Controller("job", ours)
		w.Faults(fault.Fault{Kind: fault.KindThrottle, Actor: "job", Verb: "create", Resource: "pods", Nth: 1})
		w.Create(j)
		w.Advance(500 * time.Millisecond)
		w.Patch(j, types.MergePatchType, `{"spec":{"suspend":true}}`)
		before := len(creates(w))
		w.Advance(time.Minute)
		if tries := creates(w); len(tries) != before {
			w.Fatalf("a pod is created for a suspended Job: %v", tries)
		}
	})
}

// TestEvents checks the Events that `kubectl describe job` shows.
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
				w.Fatalf("no Event %s was emitted", reason)
			}
		}
	})
}

// TestRejectedPatch checks that an Event reports a finalizer that the API does not allow to be removed.
func TestRejectedPatch(t *testing.T) {
	simtest.Run(t, simtest.Seeds(1), func(w *simtest.World) {
		j := pi(1, 1)
		w.Controller("job", func(ctx context.Context, config *rest.Config) error {
			run := controller.Runner(controller.Options{All: true, Workers: 1, Writes: 1, Audit: -1, Events: config})
			return family.Rejecting("", apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("denied by policy")), run)(ctx, config)
		})
		w.Kubelet()
		w.Create(j)
		w.Advance(time.Minute)
		if !slices.ContainsFunc(w.View().List("events"), isAbout("FailedUpdatePod")) {
			w.Fatalf("no Event reports it")
		}
	})
}

// TestRejectedPatchOfOnePod checks that a pod whose finalizer cannot be removed does not stop the other pods: all are created, and all others are
// released. A controller that starts no further write after an error would try that pod alone, in each sync.
func TestRejectedPatchOfOnePod(t *testing.T) {
	simtest.Run(t, simtest.Seeds(1), func(w *simtest.World) {
		denied := ""
		w.Controller("job", func(ctx context.Context, config *rest.Config) error {
			config = rest.CopyConfig(config)
			config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					if r.Method == http.MethodPatch && denied == "" {
						denied = r.URL.Path
					}
					if r.Method != http.MethodPatch || r.URL.Path != denied {
						return next.RoundTrip(r)
					}
					body := `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"denied by policy"}`
					return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
				})
			})
			return controller.Runner(controller.Options{All: true, Workers: 1, Writes: 1, Audit: -1})(ctx, config)
		})
		w.Kubelet()
		w.Create(pi(4, 12))
		w.Advance(time.Minute)
		tracked := 0
		pods := w.View().List("pods")
		for _, p := range pods {
			if slices.Contains(p.GetFinalizers(), batchv1.JobTrackingFinalizer) {
				tracked++
			}
		}
		if len(pods) != 12 || tracked != 1 {
			w.Fatalf("%d pods exist, %d with the finalizer; want 12 and 1", len(pods), tracked)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestMetrics checks upstream's names, and the counts of one Job.
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
	got := gathered(t.Fatalf, registry)
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

// gathered returns the counts of a registry, by name and labels.
func gathered(fatalf func(string, ...any), registry *prometheus.Registry) map[string]float64 {
	families, err := registry.Gather()
	if err != nil {
		fatalf("%v", err)
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
	return got
}

// TestPodsBeyondPlan checks that pods that are surplus because the user has lowered parallelism take several
// plans and are not counted as beyond the plan, and that pods that another client has created are counted
// once.
func TestPodsBeyondPlan(t *testing.T) {
	simtest.Run(t, simtest.Seeds(1), func(w *simtest.World) {
		metrics, registry := controller.NewMetrics(), prometheus.NewRegistry()
		registry.MustRegister(metrics)
		limits := planner.DefaultLimits
		limits.Pods = 2
		w.Controller("job", controller.Runner(controller.Options{All: true, Workers: 1, Writes: 1, Audit: -1, Metrics: metrics, Limits: limits}))
		w.Controller("kubelet", jobs.Kubelet(func(*corev1.Pod) jobs.Outcome { return jobs.Outcome{} }))
		w.AllowDifferentOutcomes()
		beyond := func(what string, want float64, pods int) {
			w.Settle()
			got := gathered(w.Fatalf, registry)["job_controller_pods_beyond_plan_total "]
			if active := len(w.View().List("pods")); got != want || active != pods {
				w.Fatalf("%s: %v pods beyond the plan, want %v; there are %d pods, want %d", what, got, want, active, pods)
			}
		}
		j := pi(7, 20)
		w.Create(j)
		beyond("a new Job", 0, 7)
		w.Patch(j, types.MergePatchType, `{"spec":{"parallelism":2}}`)
		beyond("fewer pods", 0, 2)
		for i := range 4 {
			w.Create(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("theirs-%d", i), Labels: j.Spec.Template.Labels},
				Spec:       j.Spec.Template.Spec,
			})
		}
		beyond("pods of another owner", 4, 2)
	})
}

func isAbout(reason string) func(*unstructured.Unstructured) bool {
	return func(e *unstructured.Unstructured) bool { return e.Object["reason"] == reason }
}
