package simtest

import (
	"testing"

	"github.com/rehearse-k8s/rehearse/sim"
)

func (p *player) replay(t testing.TB, file string)   {}
func (p *player) remembered(t testing.TB) []sim.Plan { return nil }
func (p *player) conclude(t testing.TB, r *sim.Result) {
	t.Helper()
	if f := r.Failure; f != nil {
		t.Errorf("%s: %s\nfaults %v\nfound after %d runs (%d faults, %d steps); now %d steps; %s", f.Run.Failure.Oracle, f.Run.Failure.Message, f.Run.Faults, f.FoundAfter, f.FoundFaults, f.FoundSteps, len(f.Run.Steps), f.Grade())
	}
}
