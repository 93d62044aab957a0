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

// consistency turns upstream's read-your-writes of the Job controller on or off, for
// one test. It is on by default in 1.36. It asks the informers' stores how far they
// have come, and they can only tell with client-go's AtomicFIFO; without it the
// controller lets everything pass.
func consistency(t *testing.T, on bool) {
	t.Helper()
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.StaleControllerConsistencyJob, on)
	if on && !clientfeatures.FeatureGates().Enabled(clientfeatures.AtomicFIFO) {
		t.Fatal("AtomicFIFO is off: StaleControllerConsistencyJob would do nothing")
	}
}

// What the promises are called that upstream's controller breaks, without the Job's name.
const (
	enough    = "is created when enough have succeeded or run"
	beyond    = "is created beyond its parallelism"
	endsNever = "has finished, or waits for running pods"
)

// TestUpstreamRaces plays the seven with Kubernetes 1.36.3's own controller, as it is and
// with its mitigation of 1.36 turned off, and wants what docs/design/jobs-upstream.md
// says. R3 and R4 had been known from reading its code only: they are real, and the
// mitigation stands them. R5 and R7 it does not stand. R1 and R2 are older than the
// mitigation: what 1.34 remembers of Jobs that it has finished is enough.
//
// The test is about this release. When it fails, upstream has changed.
func TestUpstreamRaces(t *testing.T) {
	for _, c := range []struct {
		race    jobs.Race
		off, on string // the promise that is broken; "": none
	}{
		{race("R1"), "", ""},
		{race("R2"), "", ""},
		{race("R3"), enough, ""},
		{race("R4"), enough, ""},
		{race("R5"), beyond, beyond},
		{race("R6"), "", ""},
		{race("R7"), endsNever, endsNever},
		{jobs.OlderServer(), enough, enough},
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
	t.Logf("%d runs, %d of them different, single faults %d of %d, %s", r.Runs, r.Distinct, r.Systematic, r.SystematicTotal, r.Elapsed)
	f := r.Failure
	switch {
	case f == nil && want != "":
		t.Errorf("found nothing; want a violated invariant: %s", want)
	case f == nil && r.Systematic < r.SystematicTotal:
		t.Errorf("not every single fault was tried")
	case f != nil:
		t.Logf("found in run %d, %s, %d steps: %s: %s\n%q", f.FoundAfter, f.Grade(), len(f.Run.Steps), f.Run.Failure.Oracle, f.Run.Failure.Message, f.Run.Faults)
		if want == "" || !strings.Contains(f.Run.Failure.Oracle, want) {
			t.Errorf("expected %q", want)
		}
	}
}

// TestUpstreamFamily searches Jobs of the family. What is found is upstream's own affair
// and is logged: docs/design/jobs-upstream.md says what a long search has found. The
// mitigation off, it must find something, or the family would not bite.
func TestUpstreamFamily(t *testing.T) {
	for _, on := range []bool{false, true} {
		t.Run(map[bool]string{false: "off", true: "on"}[on], func(t *testing.T) {
			consistency(t, on)
			found, played := jobs.Rehearse(t, kubecontrollers.Job, jobs.Draws(*from, *cases), *runs, jobs.LongLags()...)
			t.Logf("%d runs; %d of %d cases failed", played, len(found), *cases)
			for _, f := range found {
				if len(f.Result.Failure.Plan.Faults) == 0 {
					t.Errorf("case %d fails without any fault", f.Case.Seed)
				}
			}
			if !on && len(found) == 0 {
				t.Error("nothing was found")
			}
		})
	}
}
