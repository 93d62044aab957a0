package sim

import (
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// TestDiscardRejected: only what is missing at the end is discarded, and only if no create of the fault succeeded.
func TestDiscardRejected(t *testing.T) {
	f, err := fault.Parse("recreate actor=a verb=update resource=configmaps target=configmaps/n/b nth=1")
	if err != nil {
		t.Fatal(err)
	}
	missing, broken := &history.Failure{Oracle: "b exists", AtEnd: true}, &history.Failure{Oracle: "nothing panics"}
	for name, c := range map[string]struct {
		codes     []int
		failure   *history.Failure
		final     bool
		discarded bool
	}{
		"rejected":                  {codes: []int{403}, failure: missing, discarded: true},
		"rejected, and all is well": {codes: []int{403}, discarded: true},
		"created":                   {codes: []int{201}, failure: missing},
		"rejected at first":         {codes: []int{429, 201}, failure: missing},
		"a controller created it":   {codes: []int{409}, failure: missing},
		"not created yet":           {failure: missing},
		"a controller panics":       {codes: []int{403}, failure: broken},
		"the run cannot be stopped": {codes: []int{403}, failure: missing, final: true},
	} {
		run := &history.Run{Failure: c.failure}
		for _, code := range c.codes {
			run.Steps = append(run.Steps, history.Step{Kind: history.Request, Actor: history.OtherUser, Verb: "create", Fault: f.String(), Code: code})
		}
		out := &Outcome{Run: run, Plan: Plan{Faults: []fault.Fault{f}}, Final: c.final}
		out.discardRejected()
		if out.discarded != c.discarded || (len(out.Unmet) == 1) != c.discarded || c.discarded == (run.Failure != nil) && c.failure != nil {
			t.Errorf("%s: discarded %t, unmet %v, failure %v", name, out.discarded, out.Unmet, run.Failure)
		}
	}
}
