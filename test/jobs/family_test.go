package jobs_test

import (
	"flag"
	"reflect"
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/rehearse-k8s/rehearse/examples/onesyncjob"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/simtest/kubecontrollers"
	"github.com/rehearse-k8s/rehearse/test/jobs"
)

// How many cases and runs a test searches.
var (
	from  = flag.Int("jobs.from", 1, "the seed of the first case of the family")
	cases = flag.Int("jobs.cases", 6, "how many cases of the family are searched")
	runs  = flag.Int("jobs.runs", 60, "how many runs each case has")
)

func race(name string) jobs.Race {
	for _, r := range jobs.Races() {
		if r.Name == name {
			return r
		}
	}
	panic("unknown race " + name)
}

// TestNaive checks that a controller that counts and releases in one sync fails in the races about counting,
// and in the family, as far as it supports the specs.
func TestNaive(t *testing.T) {
	for _, name := range []string{"R1", "R2", "R3", "R4", "R5"} {
		r := race(name).Play(t, onesyncjob.Run)
		if r.Failure == nil {
			t.Errorf("%s: nothing was found in %d runs", name, r.Runs)
			continue
		}
		t.Logf("%s: found in run %d: %s: %s\n%q", name, r.Failure.FoundAfter, r.Failure.Run.Failure.Oracle, r.Failure.Run.Failure.Message, r.Failure.Run.Faults)
	}
	var few []jobs.Case
	for _, c := range jobs.Draws(1, 300) {
		if plain(c) {
			few = append(few, c)
		}
	}
	found, played := jobs.Rehearse(t, onesyncjob.Run, few, *runs, jobs.LongLags()...)
	t.Logf("%d runs; %d of %d cases failed", played, len(found), len(few))
	for _, f := range found {
		if plan := f.Result.Failure.Plan; len(plan.Faults) == 0 && plan.Schedule.IsZero() {
			t.Errorf("it fails without faults: %s", f)
		}
	}
	if len(found) < len(few)/2 {
		t.Error("too few failed")
	}
}

// plain reports whether the naive controller supports a case.
func plain(c jobs.Case) bool {
	s := c.Spec
	return s.Suspend == nil && s.PodFailurePolicy == nil && s.SuccessPolicy == nil && s.BackoffLimitPerIndex == nil &&
		s.ActiveDeadlineSeconds == nil && s.PodReplacementPolicy == nil && len(c.Changes) == 0 && c.Again == nil && c.Theirs == 0
}

// TestDraw checks that a seed always gives the same case, and that a family of some size contains everything
// that a Job can have.
func TestDraw(t *testing.T) {
	seen := map[string]int{}
	for _, c := range jobs.Draws(1, 200) {
		if again := jobs.Draw(c.Seed); !reflect.DeepEqual(c, again) {
			t.Fatalf("drawn twice:\n%s\n%s", c, again)
		}
		s := c.Spec
		for what, is := range map[string]bool{
			"indexed":                *s.CompletionMode == batchv1.IndexedCompletion,
			"work queue":             s.Completions == nil,
			"no completions":         s.Completions != nil && *s.Completions == 0,
			"backoffLimitPerIndex":   s.BackoffLimitPerIndex != nil,
			"maxFailedIndexes":       s.MaxFailedIndexes != nil,
			"podFailurePolicy":       s.PodFailurePolicy != nil,
			"successPolicy":          s.SuccessPolicy != nil,
			"replaced when failed":   s.PodReplacementPolicy != nil && *s.PodReplacementPolicy == batchv1.Failed,
			"replaced at once":       s.PodReplacementPolicy != nil && *s.PodReplacementPolicy == batchv1.TerminatingOrFailed,
			"suspended at first":     s.Suspend != nil && *s.Suspend,
			"activeDeadlineSeconds":  s.ActiveDeadlineSeconds != nil,
			"changed by its user":    len(c.Changes) > 0,
			"annotated pods":         c.Annotates,
			"pods that fail":         c.Fails > 0,
			"slow pods":              c.Slow > 0,
			"late statuses":          c.Late > 0,
			"a pod that matches":     c.Theirs > 0,
			"created again":          c.Again != nil && !c.Again.Orphans,
			"orphaned pods":          c.Again != nil && c.Again.Orphans && !c.Again.Adopts,
			"adopted pods":           c.Again != nil && c.Again.Adopts,
			"several pods at a time": *s.Parallelism > 1,
		} {
			if is {
				seen[what]++
			} else {
				seen[what] += 0
			}
		}
	}
	for what, n := range seen {
		if n < 5 {
			t.Errorf("%s: %d of 200 cases", what, n)
		}
	}
	t.Log(seen)
}

// upstreamLoses is the seed of a case in which upstream's controller loses a success without any fault: the
// kubelet reports it when the finalizer is removed, and the delete follows.
const upstreamLoses = 32

// TestCases runs each of many cases once without faults, with upstream's controller: the API accepts the spec
// and every change, the invariants hold, and Jobs end in both ways.
func TestCases(t *testing.T) {
	ends := map[string]int{}
	for _, c := range jobs.Draws(1, 100) {
		r := simtest.Explore(t, simtest.Seeds(1), func(w *simtest.World) {
			for _, end := range []string{"Complete", "Failed"} {
				w.Sometimes(invariant.Condition("jobs.batch", "default", "pi", end, "True"))
			}
			c.Test(kubecontrollers.Job)(w)
		})
		if loses := c.Seed == upstreamLoses; (r.Failure != nil) != loses {
			t.Errorf("case %d fails: %t\n%s", c.Seed, !loses, c)
			if r.Failure != nil {
				t.Errorf("%+v", r.Failure.Run.Failure)
			}
		}
		for name, seen := range r.Seen {
			if seen {
				ends[name]++
			}
		}
	}
	for name, n := range ends {
		if n < 20 {
			t.Errorf("only %d of 100: %s", n, name)
		}
	}
	t.Log(ends)
}
