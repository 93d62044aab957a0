//go:build unix

package rehearsal

import (
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// TestObserve: a run that is observed after its end keeps each state that it reaches within a minute; others end at
// once.
func TestObserve(t *testing.T) {
	for _, observed := range []bool{false, true} {
		inRun(t, heartbeatScenario, func(r *testRun) {
			r.plan = sim.Plan{Learn: true, Observe: observed}
			r.write("agent", "configmaps", "a")
			r.pass(time.Second)
			r.watchers.Go(func() {
				for range 2 { // the second write comes too late
					<-time.After(40 * time.Second)
					r.write("agent", "configmaps", "late")
					r.monitor.poll()
				}
			})
			before := r.elapsed()
			r.observe()
			took := r.elapsed() - before
			r.watchers.Wait()
			want, states := time.Duration(0), 0
			if observed {
				want, states = defaultTimeouts.observe, 2
			}
			equal(t, "duration", want, took)
			equal(t, "states", states, len(r.monitor.laterStates))
		})
	}
}

// TestDelayStep: the user of a run that must differ from the first one waits before each step, for the same time in
// each run with the same seed, and for two seconds at most in all.
func TestDelayStep(t *testing.T) {
	delays := func(p sim.Plan) (all []time.Duration) {
		inRun(t, copyScenario, func(r *testRun) {
			r.plan = p
			began := r.elapsed()
			for n := range r.harness.o.Scenario.Steps {
				before := r.elapsed()
				if err := r.delayStep(n); err != nil {
					t.Error(err)
				}
				all = append(all, r.elapsed()-before)
			}
			if total := r.elapsed() - began; total > maxStepDelays {
				t.Errorf("the steps were delayed for %s", total)
			}
		})
		return all
	}
	equal(t, "without", []time.Duration{0, 0, 0}, delays(sim.Plan{Seed: 2}))
	first := delays(sim.Plan{Seed: 2, Vary: true})
	equal(t, "the same seed", first, delays(sim.Plan{Seed: 2, Vary: true}))
	if other := delays(sim.Plan{Seed: 3, Vary: true}); other[0] == first[0] {
		t.Error("another seed has the same delays")
	}
}

// TestDifferenceTimeout: a run may differ for longer than the longest period of its heartbeats, but not for longer than a minute.
func TestDifferenceTimeout(t *testing.T) {
	for period, want := range map[time.Duration]time.Duration{0: 10 * time.Second, 20 * time.Second: 40 * time.Second, time.Hour: time.Minute} {
		equal(t, period.String(), want, defaultTimeouts.differenceTimeout([]verdict.Periodic{{Period: period}}))
	}
}
