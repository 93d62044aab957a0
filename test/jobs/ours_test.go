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

// ours is our controller with one worker, so that runs repeat, and without the audit,
// which is for faults that are not legal.
var ours = controller.Runner(controller.Options{All: true, Workers: 1, Writes: 1, Audit: -1})

// fed is the same as `rehearse up` runs it.
var fed = family.Fed(func(pods *podcache.Cache) func(context.Context, *rest.Config) error {
	return controller.Runner(controller.Options{All: true, Workers: 1, Writes: 1, Audit: -1, Pods: pods})
})

// TestOurRaces plays the seven, and those that were found since, with our controller.
// In none of them it breaks a promise, wherever the fault meets it.
func TestOurRaces(t *testing.T) {
	for _, race := range append(jobs.Races(), jobs.OlderServer(), jobs.LostSuccess(), jobs.RemovedSuccess()) {
		t.Run(race.Name, func(t *testing.T) {
			r := race.Play(t, ours)
			t.Logf("%d runs, %d of them different, single faults %d of %d, %s", r.Runs, r.Distinct, r.Systematic, r.SystematicTotal, r.Elapsed)
			if f := r.Failure; f != nil {
				t.Fatalf("found in run %d, %s: %s: %s\n%q", f.FoundAfter, f.Grade(), f.Run.Failure.Oracle, f.Run.Failure.Message, f.Run.Faults)
			}
			if r.Systematic < r.SystematicTotal {
				t.Error("not every single fault was tried")
			}
		})
	}
}

// TestFedFamily searches the first of them with pods that come through a feed: what the feed
// does when its watch is late, breaks off or has expired fools the controller as little.
func TestFedFamily(t *testing.T) {
	found, played := jobs.Rehearse(t, fed, jobs.Draws(*from, (*cases+1)/2), *runs)
	relisted, more := jobs.Rehearse(t, fed, jobs.Draws(*from, *cases), *runs, family.Relists(jobs.Actor)...)
	t.Logf("%d runs of %d cases, and %d of %d with relists", played, (*cases+1)/2, more, *cases)
	for _, f := range append(found, relisted...) {
		t.Error(f)
	}
}

// TestFedRelisted plays what a reviewer found: the feed replayed a list as single events, and a third pod ran at
// parallelism 2.
func TestFedRelisted(t *testing.T) {
	r := jobs.Relisted().Play(t, fed)
	t.Logf("%d runs, single faults %d of %d", r.Runs, r.Systematic, r.SystematicTotal)
	if f := r.Failure; f != nil {
		t.Errorf("found in run %d, %s: %s: %s\n%q", f.FoundAfter, f.Grade(), f.Run.Failure.Oracle, f.Run.Failure.Message, f.Run.Faults)
	}
}

// TestFedFound plays a case again that something was wrong in: after a list anew the feed showed
// what was deleted with no revision that the controller could wait for, and it waited for ever.
func TestFedFound(t *testing.T) {
	found, _ := jobs.Rehearse(t, fed, jobs.Draws(5042, 1), 120)
	for _, f := range found {
		t.Error(f)
	}
}

// TestOurFamily searches Jobs of the family under all legal faults; two instances at once
// apart, which leader election is there to prevent. What upstream's controller breaks
// in the same search stands in docs/design/jobs-upstream.md.
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

// TestOursWithKubelet has pods scheduled, run and stopped by the stage engine, and
// everybody disturbed: the controller, the scheduler and the kubelet.
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

// TestAudit loses events for good, which no revision can tell: the audit finds it, and
// without it the Job waits for ever.
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
		t.Error("nothing is lost without the audit: this test does not bite")
	}
}

// TestAuditReadsByName: the watch cache of the API server has lost that a pod is deleted, so a list shows what the
// controller's cache shows, and a cache that is filled again is wrong again. The audit reads the pod by name, and the
// controller goes on from that.
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
		t.Error("the pod is seen to be gone without the audit: this test does not bite")
	}
}
