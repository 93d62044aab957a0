package simtest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// TestFurtherFaults: for each request after a first fault there is one further fault that acts on that request. The record has no step for a request
// that a crash prevented from being served, and the step of a deposed leader's write comes late, but the faults of a run count both when they
// arrive: a search that counts steps names the wrong request, or takes it for the one on which the first fault acted and tries none.
func TestFurtherFaults(t *testing.T) {
	for _, text := range []string{
		"crash-before actor=runner verb=update resource=pods/status object=default/p1 nth=1",
		"time-travel actor=runner verb=update resource=pods/status object=default/p1 nth=1",
		"deposed-write actor=runner verb=update resource=pods/status object=default/p0 nth=1 for=5s",
		"overlap actor=runner verb=update resource=pods/status object=default/p0 nth=1 for=20s",
		"crash-after actor=runner verb=update resource=pods/status object=default/p2 nth=1",
	} {
		t.Run(text, func(t *testing.T) {
			first, err := fault.ParseAll([]string{text})
			must(t, err)
			play := func(more ...fault.Fault) *history.Run {
				return simtest.Play(t, simtest.Options{}, sim.Plan{Seed: 7, Faults: append(slices.Clone(first), more...)}, podTest(3)).Run
			}
			run := play()
			var requests, acted []int
			for n := range run.Steps {
				s := &run.Steps[n]
				if s.Kind == history.Request && strings.HasPrefix(s.Actor, "runner") && !strings.HasPrefix(s.Fault, string(fault.KindDeposedWrite)) {
					requests = append(requests, n)
				}
			}
			for _, f := range sim.Candidates(run, []fault.Fault{fault.Of(fault.KindError)}, sim.Virtual) {
				with := play(f)
				at := slices.IndexFunc(with.Steps, func(s history.Step) bool { return s.Fault == f.String() })
				if at < 0 {
					t.Errorf("%s never acts", f)
				}
				acted = append(acted, at)
			}
			if slices.Sort(acted); !slices.Equal(acted, requests) {
				t.Errorf("further faults act at steps %v; the requests are at %v", acted, requests)
			}
		})
	}
}

// TestPartitionBlocksRetry: the timed partition that a search tries lasts longer than its client waits for the first answer. The shorter one that it
// replaced blocked this write only, as a timeout does.
func TestPartitionBlocksRetry(t *testing.T) {
	play := func(faults ...fault.Fault) *history.Run {
		return passed(t, simtest.Play(t, simtest.Options{}, sim.Plan{Seed: 7, Faults: faults}, podTest(1)))
	}
	tried := 0
	for _, f := range sim.Candidates(play(), []fault.Fault{fault.Of(fault.KindPartition)}, sim.Virtual) {
		if f.For == 0 {
			continue
		}
		tried++
		var blocked []string
		for _, s := range play(f).Steps {
			if s.Kind == history.Request && s.Fault == f.String() {
				blocked = append(blocked, s.Verb+" "+s.Key())
			}
		}
		if len(blocked) < 2 || blocked[0] != blocked[1] {
			t.Errorf("%s blocks %q: its client does not repeat a write while it lasts", f, blocked)
		}
	}
	if tried == 0 {
		t.Error("no timed partition is tried")
	}
}
