//go:build unix

package rehearsal

import (
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

const heartbeatScenario = `
apiVersion: rehearse-k8s.github.io/v1alpha1
kind: Scenario
metadata: {name: heartbeat}
spec:
  cluster: {nodes: 0, controllers: []}
  clients: [{name: agent}]
`

// TestHeartbeat: a heartbeat that is faster than the quiet time does not prevent the end of a run without faults, nor
// that of a run with faults if the heartbeat is known. Otherwise it is a livelock.
func TestHeartbeat(t *testing.T) {
	known := []verdict.Periodic{{Actor: "agent", Resource: "configmaps", Paths: []string{"metadata.annotations.at"}, Period: 700 * time.Millisecond}}
	for name, c := range map[string]struct {
		plan     sim.Plan
		interval time.Duration
		want     string
	}{
		"without faults":          {sim.Plan{Learn: true}, 700 * time.Millisecond, "over"},
		"known":                   {sim.Plan{Periodic: known}, 700 * time.Millisecond, "over"},
		"unknown":                 {sim.Plan{}, 700 * time.Millisecond, verdict.QuiescenceOracle},
		"known, more often":       {sim.Plan{Periodic: known}, 200 * time.Millisecond, verdict.QuiescenceOracle},
		"a loop, without a fault": {sim.Plan{Learn: true}, 200 * time.Millisecond, verdict.QuiescenceOracle},
	} {
		inRun(t, heartbeatScenario, func(r *testRun) {
			r.plan = c.plan
			got := "neither"
			for range 300 {
				r.write("agent", "configmaps", "beat")
				r.pass(c.interval)
				if over, _ := r.isOver(0); over {
					got = "over"
					break
				}
			}
			if f := r.monitor.failure; f != nil {
				got = f.Oracle
			}
			equal(t, name, c.want, got)
			if c.plan.Learn && got == "over" {
				_, found := r.monitor.rhythm(true)
				equal(t, "found", known, found)
			}
		})
	}
}
