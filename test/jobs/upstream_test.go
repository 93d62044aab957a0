package jobs_test

import (
	"strings"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientfeatures "k8s.io/client-go/features"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"

	"github.com/rehearse-k8s/rehearse/simtest/kubecontrollers"
	"github.com/rehearse-k8s/rehearse/test/jobs"
)

// consistency turns the read-your-writes check of upstream's Job controller on or off, for one test. It is on
// by default in 1.36. It reads the revisions of the informers' stores, which only report them with client-go's
// AtomicFIFO; without that the check does nothing.
func consistency(t *testing.T, on bool) {
	t.Helper()
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.StaleControllerConsistencyJob, on)
	if on && !clientfeatures.FeatureGates().Enabled(clientfeatures.AtomicFIFO) {
		t.Fatal("AtomicFIFO is off: StaleControllerConsistencyJob would do nothing")
	}
}

// The invariants that upstream's controller violates, without the Job's name.
const (
	enough    = "is created when enough have succeeded or run"
	beyond    = "is created beyond its parallelism"
	endsNever = "has finished, or waits for running pods"
)

// TestUpstreamRaces plays the seven races with the controller of Kubernetes 1.36.3, as it is and with the
// mitigation of 1.36 turned off, and compares the result with docs/design/jobs-upstream.md. R3 and R4 had been
// known only from reading its code: they are real, and the mitigation prevents them. It does not prevent R5
// and R7. R1 and R2 are older than the mitigation: what 1.34 remembers of finished Jobs prevents them.
//
// The test is about this release. When it fails, upstream has changed.
func TestUpstreamRaces(t *testing.T) {
	for _, c := range []struct {
		race    jobs.Race
		off, on string // the violated invariant; "": none
	}{
		{race("R1"), "", ""},
		{race("R2"), "", ""},
		{race("R3"), enough, ""},
		{race("R4"), enough, ""},
		{race("R5"), beyond, beyond},
		{race("R6"), "", ""},
		{race("R7"), endsNever, endsNever},
		{jobs.OlderServer(), beyond, beyond},
		{jobs.LostSuccess(), enough, enough},
		{jobs.RemovedSuccess(), enough, enough},
	} {
		t.Run(c.race.Name, func(t *testing.T) {
			t.Run("off", func(t *testing.T) { playUpstream(t, c.race, false, c.off) })
			t.Run("on", func(t *testing.T) { playUpstream(t, c.race, true, c.on) })
		})
	}
}

func playUpstream(t *testing.T, race jobs.Race, on bool, want string) {
	consistency(t, on)
	r := race.Play(t, kubecontrollers.Job)
	t.Logf("%d runs, %d of them different, single faults %d and %d redundant of %d, %s", r.Runs, r.Distinct, r.Systematic, r.Redundant, r.SystematicTotal, r.Elapsed)
	f := r.Failure
	switch {
	case f == nil && want != "":
		t.Errorf("found nothing; want a violated invariant: %s", want)
	case f == nil && r.Systematic+r.Redundant < r.SystematicTotal:
		t.Errorf("not every single fault was tried")
	case f != nil:
		t.Logf("found in run %d, %s, %d steps: %s: %s\n%q", f.FoundAfter, f.Grade(), len(f.Run.Steps), f.Run.Failure.Oracle, f.Run.Failure.Message, f.Run.Faults)
		if want == "" || !strings.Contains(f.Run.Failure.Oracle, want) {
			t.Errorf("expected %q", want)
		}
	}
}

// TestUpstreamFamily searches Jobs of the family and logs what it finds in upstream's controller;
// docs/design/jobs-upstream.md contains the results of a long search. With the mitigation off it must find
// something, otherwise the family proves nothing.
func TestUpstreamFamily(t *testing.T) {
	for _, on := range []bool{false, true} {
		t.Run(map[bool]string{false: "off", true: "on"}[on], func(t *testing.T) {
			consistency(t, on)
			found, played := jobs.Rehearse(t, kubecontrollers.Job, jobs.Draws(*from, *cases), *runs, jobs.LongLags()...)
			t.Logf("%d runs; %d of %d cases failed", played, len(found), *cases)
			for _, f := range found {
				if plan := f.Result.Failure.Plan; len(plan.Faults) == 0 && plan.Schedule.IsZero() {
					t.Errorf("case %d fails without any fault", f.Case.Seed)
				}
			}
			if !on && len(found) == 0 {
				t.Error("the search has found nothing")
			}
		})
	}
}
