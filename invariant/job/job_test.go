package job_test

import (
	batchv1 "k8s.io/api/batch/v1"
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/viewtest"
)

const (
	beyond  = "no pod of Job default/pi is created beyond its parallelism"
	enough  = "no pod of Job default/pi is created when enough have succeeded or run"
	second  = "no second pod of Job default/pi is created for an index that has one or has succeeded"
	orphans = "no pod of Job default/pi is created while its controller observes one that it may adopt"
	over    = "no pod of Job default/pi is created after its success or failure is decided"
	once    = "no pod of Job default/pi is counted twice"
	ordered = "the conditions of Job default/pi change in a legal order"
)

// TestAlways plays correct and incorrect controllers. Exactly the expected invariants must be violated, at
// once, with the expected message.
func TestAlways(t *testing.T) {
	for name, c := range map[string]struct {
		spec map[string]any
		play func(r *run)
		want []string
	}{
		"one pod, counted in three steps": {nonIndexed(1, 1), func(r *run) {
			r.pod("a", "", r.now())
			r.phase("a", "Succeeded")
			r.status("SuccessCriteriaMet", "uncountedTerminatedPods", uncounted([]any{"uid-a"}, nil))
			r.finalizers("c", "a")
			r.status("SuccessCriteriaMet Complete", "succeeded", int64(1))
		}, nil},
		"R1: a second pod after the end": {nonIndexed(1, 1), func(r *run) {
			r.pod("a", "", r.now())
			r.phase("a", "Succeeded")
			r.status("SuccessCriteriaMet Complete", "succeeded", int64(1))
			r.pod("b", "", r.now())
		}, []string{
			enough + ": step 10 creates default/b; decided at step 9 with the Job at revision 11: 1 have succeeded (default/a) and 1 run (default/b), and 1 are enough",
			over + ": step 10 creates default/b; decided at step 9 with the Job at revision 11: at step 8 c had written Complete=True SuccessCriteriaMet=True",
		}},
		"R2: another pod after the last retry": {nonIndexed(1, 1), func(r *run) {
			r.pod("a", "", r.now())
			r.phase("a", "Failed")
			r.pod("b", "", r.status("FailureTarget Failed", "failed", int64(1)))
		}, []string{over + ": step 9 creates default/b; decided at step 0 with the Job at revision 0: at step 8 c had written Failed=True FailureTarget=True"}},
		"a create was in flight when failure was decided": {nonIndexed(2, 2), func(r *run) {
			decided := r.now()
			r.pod("a", "", decided)
			r.phase("a", "Failed")
			r.status("FailureTarget", "failed", int64(1))
			r.pod("b", "", decided)
		}, nil},
		"R3: a surplus pod before the end": {nonIndexed(2, 3), func(r *run) {
			decided := r.now()
			r.pod("a", "", decided)
			r.pod("b", "", decided)
			r.phase("a", "Succeeded")
			r.pod("c", "", r.now())
			r.phase("b", "Succeeded")
			r.pod("d", "", r.now())
		}, []string{enough + ": step 13 creates default/d; decided at step 12 with the Job at revision 11: 2 have succeeded (default/a, default/b) and 2 run (default/c, default/d), and 3 are enough"}},
		"R4: an index that has succeeded": {indexed(2), func(r *run) {
			decided := r.now()
			r.pod("a", "0", decided)
			r.pod("b", "1", decided)
			r.phase("a", "Succeeded")
			r.pod("c", "0", r.now())
		}, []string{
			enough + ": step 10 creates default/c; decided at step 9 with the Job at revision 11: 1 have succeeded (index 0) and 2 run (default/b, default/c), and 2 are enough",
			second + ": step 10 creates default/c; decided at step 9 with the Job at revision 11: index 0 has already succeeded with default/a",
		}},
		"R5: the answer to a create was lost": {indexed(1), func(r *run) {
			r.pod("a", "0", r.now())
			r.pod("b", "0", r.now())
		}, []string{beyond, enough, second + ": step 8 creates default/b; decided at step 7 with the Job at revision 11: index 0 already has default/a"}},
		"parallelism was lowered and the controller has not observed it": {nonIndexed(2, 9), func(r *run) {
			decided := r.now()
			r.pod("a", "", decided)
			r.spec("parallelism", int64(1))
			r.pod("b", "", r.now())
		}, nil},
		"parallelism was lowered and the controller has observed it": {nonIndexed(2, 9), func(r *run) {
			r.pod("a", "", r.now())
			r.deliver(r.spec("parallelism", int64(1)))
			r.pod("b", "", r.now())
		}, []string{beyond + ": step 10 creates default/b; decided at step 9 with the Job at revision 13: now 2 run (default/a, default/b), and at most 1 may"}},
		"a pod for a suspended Job": {nonIndexed(2, 9), func(r *run) {
			r.deliver(r.spec("suspend", true))
			r.pod("a", "", r.now())
		}, []string{beyond}},
		"observed during a reconcile": {nonIndexed(2, 9), func(r *run) {
			decided := r.now()
			r.pod("a", "", decided)
			r.deliver(r.spec("parallelism", int64(1)))
			r.pod("b", "", decided)
		}, nil},
		"a pod that is being deleted is replaced": {nonIndexed(1, 1), func(r *run) {
			r.pod("a", "", r.now())
			r.remove("someone", "a")
			r.pod("b", "", r.now())
			r.phase("a", "Succeeded")
			r.phase("b", "Failed")
			r.pod("c", "", r.now())
		}, nil},
		"a terminating pod must not be replaced before it has failed": {waiting(nonIndexed(1, 1)), func(r *run) {
			r.pod("a", "", r.now())
			r.remove("someone", "a")
			r.pod("b", "", r.now())
		}, []string{beyond, enough}},
		"the same for an index": {waiting(indexed(1)), func(r *run) {
			r.pod("a", "0", r.now())
			r.remove("someone", "a")
			r.pod("b", "0", r.now())
		}, []string{beyond, enough, second + ": step 9 creates default/b; decided at step 8 with the Job at revision 11: index 0 already has default/a"}},
		"a terminating pod is replaced when it has failed": {waiting(nonIndexed(1, 1)), func(r *run) {
			r.pod("a", "", r.now())
			r.remove("someone", "a")
			r.phase("a", "Failed")
			r.pod("b", "", r.now())
		}, nil},
		"a pod is created while another one may be adopted": {selecting(nonIndexed(2, 9)), func(r *run) {
			r.deliver(r.orphan("theirs"))
			r.Clock += 31 * time.Second
			r.pod("a", "", r.now())
		}, []string{orphans + ": step 8 creates default/a; decided at step 7 with the Job at revision 11: it observes default/theirs, which has no controller"}},
		"the orphan is not observed yet": {selecting(nonIndexed(2, 9)), func(r *run) {
			r.orphan("theirs")
			r.Clock += 31 * time.Second
			r.pod("a", "", r.now())
		}, nil},
		"the orphan has just been observed": {selecting(nonIndexed(2, 9)), func(r *run) {
			r.deliver(r.orphan("theirs"))
			r.Clock += 29 * time.Second
			r.pod("a", "", r.now())
		}, nil},
		"the orphan is adopted": {selecting(nonIndexed(2, 9)), func(r *run) {
			r.deliver(r.orphan("theirs"))
			r.Clock += 31 * time.Second
			r.adopt("theirs")
			r.pod("a", "", r.now())
		}, nil},
		"a pod of the Job before is adopted": {selecting(nonIndexed(1, 1)), func(r *run) {
			r.pod("a", "", r.now())
			r.orphan("a")
			r.create("J2", selecting(nonIndexed(1, 1)))
			r.deliver(r.wrote("user", "patch", "pods", "", "a", "uid-a", 0))
			r.adopt("a")
			r.phase("a", "Succeeded")
			r.status("SuccessCriteriaMet Complete", "succeeded", int64(1))
		}, nil},
		"a work queue continues after a success": {nonIndexed(1, -1), func(r *run) {
			r.pod("a", "", r.now())
			r.phase("a", "Succeeded")
			r.pod("b", "", r.now()) // the controller has not observed the success yet
			r.phase("b", "Failed")
			r.status("", "uncountedTerminatedPods", uncounted([]any{"uid-a"}, nil))
			r.pod("c", "", r.now())
		}, []string{enough + ": step 13 creates default/c; decided at step 12 with the Job at revision 11: at step 11 it had written that a pod has succeeded, and completions is not set"}},
		"an index that was dropped runs again": {indexed(2), func(r *run) {
			r.pod("b", "1", r.now())
			r.phase("b", "Succeeded")
			r.spec("completions", int64(1))
			r.deliver(r.spec("completions", int64(2)))
			r.pod("c", "1", r.now())
		}, nil},
		"an index that was dropped succeeds and does not count": {indexed(2), func(r *run) {
			r.pod("b", "1", r.now())
			r.deliver(r.spec("completions", int64(1)))
			r.phase("b", "Succeeded")
			r.pod("a", "0", r.now())
		}, nil},
		"a success is counted twice": {nonIndexed(2, 3), func(r *run) {
			r.pod("a", "", r.now())
			r.phase("a", "Succeeded")
			r.status("", "succeeded", int64(1), "uncountedTerminatedPods", uncounted([]any{"uid-a"}, nil))
		}, []string{once + ": the status shows 1 succeeded (1 not counted yet) and 0 failed (0), but 1 have succeeded"}},
		"a failure is counted twice": {nonIndexed(2, 3), func(r *run) {
			r.pod("a", "", r.now())
			r.phase("a", "Failed")
			r.status("", "failed", int64(2))
		}, []string{once + ": the status shows 0 succeeded (0 not counted yet) and 2 failed (0), but 1 have failed or were deleted"}},
		"one pod counted as succeeded and as failed": {nonIndexed(2, 3), func(r *run) {
			r.pod("a", "", r.now())
			r.remove("someone", "a")
			r.phase("a", "Succeeded")
			r.status("", "failed", int64(1), "succeeded", int64(1))
		}, []string{once + ": the status shows 1 succeeded (0 not counted yet) and 1 failed (0), but 1 have finished or were deleted"}},
		"a user put the finalizer back": {nonIndexed(2, 3), func(r *run) {
			r.pod("a", "", r.now())
			r.phase("a", "Failed")
			r.status("", "failed", int64(1))
			r.finalizers("c", "a")
			r.finalizers("someone", "a", batchv1.JobTrackingFinalizer)
			r.status("", "failed", int64(2))
		}, nil},
		"pods that run when the Job fails count as failed": {nonIndexed(2, 3), func(r *run) {
			r.pod("a", "", r.now())
			r.status("FailureTarget", "uncountedTerminatedPods", uncounted(nil, []any{"uid-a"}))
			r.pods["a"]["metadata"].(map[string]any)["finalizers"] = []any{}
			delete(r.pods, "a")
			r.wrote("c", "delete", "pods", "", "a", "uid-a", 0)
			r.status("FailureTarget Failed", "failed", int64(1))
		}, nil},
		"success, then failure": {nonIndexed(1, 1), func(r *run) {
			r.status("SuccessCriteriaMet")
			r.status("FailureTarget")
		}, []string{ordered + `: SuccessCriteriaMet was true and is ""`}},
		"both at once":                        {nonIndexed(1, 1), func(r *run) { r.status("SuccessCriteriaMet FailureTarget") }, []string{ordered + ": success and failure at once"}},
		"Complete without SuccessCriteriaMet": {nonIndexed(1, 1), func(r *run) { r.status("Complete") }, []string{ordered + ": it finished without SuccessCriteriaMet or FailureTarget: Complete=True"}},
		"failed with pods": {nonIndexed(1, 1), func(r *run) { r.status("FailureTarget Failed", "active", int64(1)) },
			[]string{ordered + ": Failed=True FailureTarget=True, but 1 active, 0 terminating and 0 not counted pods"}},
		"the next Job with the name has its own record": {indexed(1), func(r *run) {
			r.pod("a", "0", r.now())
			r.phase("a", "Succeeded")
			r.status("SuccessCriteriaMet Complete", "succeeded", int64(1))
			r.create("J2", indexed(1))
			r.pod("b", "0", r.now())
			r.phase("b", "Succeeded")
			r.status("SuccessCriteriaMet Complete", "succeeded", int64(1))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(c.spec)
			c.play(r)
			if len(r.violations) != len(c.want) {
				t.Fatalf("violated: %q, want %q", r.violations, c.want)
			}
			for n, want := range c.want {
				if !strings.HasPrefix(r.violations[n], want) {
					t.Errorf("violated: %q, want %q", r.violations[n], want)
				}
			}
		})
	}
}

func TestQuiescence(t *testing.T) {
	for name, c := range map[string]struct {
		spec map[string]any
		play func(r *run)
		want string
	}{
		"nothing was done":                 {nonIndexed(1, 1), func(*run) {}, "none of its pods runs, but it has not finished"},
		"its pod runs":                     {nonIndexed(1, 1), func(r *run) { r.pod("a", "", r.now()); r.status("", "active", int64(1)) }, ""},
		"the status does not show its pod": {nonIndexed(1, 1), func(r *run) { r.pod("a", "", r.now()) }, "its status shows 0 active pods; 1 run"},
		"suspended":                        {nonIndexed(1, 1), func(r *run) { r.spec("suspend", true) }, ""},
		"suspended, and a pod runs": {nonIndexed(1, 1), func(r *run) {
			r.pod("a", "", r.now())
			r.spec("suspend", true)
		}, "it must have no running pods, but 1 run"},
		"the finalizer is left": {nonIndexed(1, 1), func(r *run) {
			r.pod("a", "", r.now())
			r.phase("a", "Succeeded")
			r.status("SuccessCriteriaMet Complete", "succeeded", int64(1))
		}, "the finalizer batch.kubernetes.io/job-tracking is still on default/a"},
		"complete": {nonIndexed(1, 1), func(r *run) {
			r.pod("a", "", r.now())
			r.phase("a", "Succeeded")
			r.finalizers("c", "a")
			r.status("SuccessCriteriaMet Complete", "succeeded", int64(1))
		}, ""},
		"a success was lost": {nonIndexed(2, 2), func(r *run) {
			r.pod("a", "", r.now())
			r.pod("b", "", r.now())
			r.phase("a", "Succeeded")
			r.finalizers("c", "a")
			r.status("", "active", int64(1))
		}, "its status shows 0 succeeded; 1 have"},
		"a failure was lost": {nonIndexed(2, 2), func(r *run) {
			r.pod("a", "", r.now())
			r.pod("b", "", r.now())
			r.phase("a", "Failed")
			r.finalizers("c", "a")
			r.status("", "active", int64(1))
		}, "its status shows 0 failed; 1 have"},
		"a failure of an index whose successor does not exist yet": {perIndex(2), func(r *run) {
			r.pod("a", "0", r.now())
			r.pod("b", "1", r.now())
			r.phase("a", "Failed")
			r.status("", "active", int64(1))
		}, ""},
		"a failure of an index is not counted, and its pod has no finalizer": {perIndex(2), func(r *run) {
			r.pod("a", "0", r.now())
			r.pod("b", "1", r.now())
			r.phase("a", "Failed")
			r.finalizers("c", "a")
			r.status("", "active", int64(1))
		}, "its status shows 0 failed; 1 have"},
		"a pod that the controller removed need not be counted": {nonIndexed(1, 2), func(r *run) {
			r.pod("a", "", r.now())
			r.pod("b", "", r.now())
			r.finalizers("c", "b")
			r.remove("c", "b")
			r.phase("b", "Succeeded")
			r.status("", "active", int64(1))
		}, ""},
		"a removed pod that finished before it was deleted must be counted": {nonIndexed(1, 2), func(r *run) {
			r.pod("a", "", r.now())
			r.pod("b", "", r.now())
			r.finalizers("c", "b")
			r.phase("b", "Succeeded")
			r.remove("c", "b")
			r.status("", "active", int64(1))
		}, "its status shows 0 succeeded; 1 have"},
		"it has ended and a pod runs": {nonIndexed(1, 1), func(r *run) {
			r.pod("a", "", r.now())
			r.status("SuccessCriteriaMet Complete", "succeeded", int64(0))
			r.finalizers("c", "a")
		}, "it has finished (Complete=True SuccessCriteriaMet=True), but 1 of its pods run"},
		"the Job is gone and a pod has the finalizer": {nonIndexed(1, 1), func(r *run) {
			r.pod("a", "", r.now())
			r.object = nil
			r.wrote("user", "delete", "jobs.batch", "", "pi", "J", 0)
		}, "the finalizer batch.kubernetes.io/job-tracking is still on default/a"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(c.spec)
			c.play(r)
			viewtest.Check(t, r.invariants.AtQuiescence, r, c.want)
		})
	}
}

// TestInFlight checks, in a run of real processes, that a create that was decided before an event arrived, and
// is still in flight, is no violation, and that one long after the event is.
func TestInFlight(t *testing.T) {
	for at, violated := range map[time.Duration]bool{300 * time.Millisecond: false, 3 * time.Second: true} {
		r := newRun(map[string]any{"parallelism": int64(2), "completions": int64(2)})
		r.Record.Live = true
		r.Clock = 2 * time.Second
		r.pod("a", "", r.deliver(r.wrote("user", "patch", "jobs.batch", "", "pi", "J", 0)))
		r.Clock = 4 * time.Second
		r.object["spec"] = map[string]any{"parallelism": int64(1), "completions": int64(2)}
		seen := r.deliver(r.wrote("user", "patch", "jobs.batch", "", "pi", "J", 0))
		r.Clock += at
		r.pod("b", "", seen)
		if got := len(r.violations) > 0; got != violated {
			t.Errorf("%s after the event: violated is %t, %q", at, got, r.violations)
		}
	}
}
