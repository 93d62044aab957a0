package jobs_test

import (
	"context"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/fault"
	controller "github.com/rehearse-k8s/rehearse/internal/controller/jobs"
	"github.com/rehearse-k8s/rehearse/internal/controller/podcache"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/invariant/job"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/test/family"
	"github.com/rehearse-k8s/rehearse/test/jobs"
)

// ours is this repository's controller with one worker, so that runs repeat, and without the audit, which is
// for faults that are not legal.
var ours = controller.Runner(controller.Options{All: true, Workers: 1, Writes: 1, Audit: -1})

// fed is the same as `rehearse up` runs it.
var fed = family.Fed(func(pods *podcache.Cache) func(context.Context, *rest.Config) error {
	return controller.Runner(controller.Options{All: true, Workers: 1, Writes: 1, Audit: -1, Pods: pods})
})

// TestOurRaces plays the seven races, and those that were found since, with this repository's controller. No
// fault in any place may violate an invariant.
func TestOurRaces(t *testing.T) {
	for _, race := range append(jobs.Races(), jobs.OlderServer(), jobs.LostSuccess(), jobs.RemovedSuccess()) {
		t.Run(race.Name, func(t *testing.T) {
			r := race.Play(t, ours)
			t.Logf("%d runs, %d of them different, single faults %d of %d, %s", r.Runs, r.Distinct, r.Systematic, r.SystematicTotal, r.Elapsed)
			if f := r.Failure; f != nil {
				t.Fatalf("found in run %d, %s: %s: %s\n%q", f.FoundAfter, f.Grade(), f.Run.Failure.Oracle, f.Run.Failure.Message, f.Run.Faults)
			}
			if r.Systematic+r.Redundant < r.SystematicTotal {
				t.Error("not every single fault was tried")
			}
		})
	}
}

// TestFedFamily searches the first cases with pods that come through a shared cache: a late, interrupted or
// expired watch of the cache must not mislead the controller.
func TestFedFamily(t *testing.T) {
	found, played := jobs.Rehearse(t, fed, jobs.Draws(*from, (*cases+1)/2), *runs)
	relisted, more := jobs.Rehearse(t, fed, jobs.Draws(*from, *cases), *runs, family.Relists(jobs.Actor)...)
	t.Logf("%d runs of %d cases, and %d of %d with relists", played, (*cases+1)/2, more, *cases)
	for _, f := range append(found, relisted...) {
		t.Error(f)
	}
}

// TestFedRelisted runs a defect that a review has found: the shared cache sent a list as single events, and a
// third pod ran at parallelism 2.
func TestFedRelisted(t *testing.T) {
	r := jobs.Relisted().Play(t, fed)
	t.Logf("%d runs, single faults %d of %d", r.Runs, r.Systematic, r.SystematicTotal)
	if f := r.Failure; f != nil {
		t.Errorf("found in run %d, %s: %s: %s\n%q", f.FoundAfter, f.Grade(), f.Run.Failure.Oracle, f.Run.Failure.Message, f.Run.Faults)
	}
}

// TestFedFound runs a case again in which the search has found a defect: after a second list the shared cache
// sent deletions without a revision that the controller could wait for, and the controller waited forever.
func TestFedFound(t *testing.T) {
	found, _ := jobs.Rehearse(t, fed, jobs.Draws(5042, 1), 120)
	for _, f := range found {
		t.Error(f)
	}
}

// TestOurFamily searches Jobs of the family under all legal faults, except two concurrent instances, which
// leader election prevents. docs/design/jobs-upstream.md contains what the same search finds in upstream's
// controller.
func TestOurFamily(t *testing.T) {
	found, played := jobs.Rehearse(t, ours, jobs.Draws(*from, *cases), *runs)
	t.Logf("%d runs of %d cases", played, *cases)
	for _, f := range found {
		t.Error(f)
	}
}

func pi(parallelism, completions int32) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pi"},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To(parallelism), Completions: ptr.To(completions),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers:    []corev1.Container{{Name: "main", Image: "pi"}},
			}},
		},
	}
}

// TestOursWithKubelet runs pods with the scheduler and the stage engine, and faults of the controller, the
// scheduler and the kubelet.
func TestOursWithKubelet(t *testing.T) {
	for mode, done := range map[batchv1.CompletionMode]invariant.Invariant{
		batchv1.NonIndexedCompletion: invariant.Field("jobs.batch", "default", "pi", "status.succeeded", 3),
		batchv1.IndexedCompletion:    invariant.Field("jobs.batch", "default", "pi", "status.completedIndexes", "0-2"),
	} {
		t.Run(string(mode), func(t *testing.T) {
			simtest.Run(t, simtest.Seeds(150), func(w *simtest.World) {
				j := pi(2, 3)
				j.Spec.CompletionMode = &mode
				invariants := job.Invariants(invariant.OwnerOf(j))
				w.Controller("job", ours)
				w.Kubelet()
				w.Faults(jobs.AnyFault()...)
				w.Always(invariants.Always...)
				w.Eventually(15*time.Minute, invariants.AtQuiescence)
				w.Eventually(15*time.Minute, invariant.All(done, invariant.Condition("jobs.batch", "default", "pi", "Complete", "True")))
				w.Create(j)
			})
		})
	}
}

// TestAudit loses events for good, which no revision shows: the audit detects it, and without the audit the
// Job waits forever.
func TestAudit(t *testing.T) {
	run := func(audit time.Duration) func(*simtest.World) {
		return func(w *simtest.World) {
			w.Controller("job", controller.Runner(controller.Options{All: true, Workers: 1, Writes: 1, Audit: audit}))
			w.Kubelet()
			w.Faults(fault.Fault{Kind: fault.KindLoseEvent, Actor: "job"})
			w.Eventually(time.Hour, invariant.Field("jobs.batch", "default", "pi", "status.succeeded", 2))
			w.Create(pi(1, 2))
		}
	}
	seen := simtest.Seeds(60).Level(fault.Seen)
	simtest.Run(t, seen, run(5*time.Minute))
	if r := simtest.Explore(t, seen, run(-1)); r.Failure == nil {
		t.Error("nothing is lost without the audit: this test proves nothing")
	}
}

// TestAuditReadsByName checks a watch cache of the API server that has lost the deletion of a pod, so that a
// list shows the same as the controller's cache, and a cache that is filled again is wrong again. The audit
// reads the pod by name, and the controller continues with the result.
func TestAuditReadsByName(t *testing.T) {
	run := func(audit time.Duration) func(*simtest.World) {
		return func(w *simtest.World) {
			w.AllowDifferentOutcomes()
			w.Controller("job", family.StaleServer(controller.Runner(controller.Options{All: true, Workers: 1, Writes: 1, Audit: audit})))
			w.Controller("kubelet", jobs.Kubelet(func(*corev1.Pod) jobs.Outcome { return jobs.Outcome{After: 30 * time.Second} }))
			w.Faults()
			w.Create(pi(1, 1))
			w.Advance(5 * time.Second)
			pod := w.View().List("pods")[0]
			w.Delete(&corev1.Pod{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Namespace: pod.GetNamespace(), Name: pod.GetName()},
			})
			w.Eventually(time.Hour, invariant.Field("jobs.batch", "default", "pi", "status.succeeded", 1))
		}
	}
	simtest.Run(t, simtest.Seeds(3), run(5*time.Minute))
	if r := simtest.Explore(t, simtest.Seeds(3), run(-1)); r.Failure == nil {
		t.Error("the controller observes the deletion without the audit: this test proves nothing")
	}
}
