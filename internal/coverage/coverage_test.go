package coverage_test

import (
	"testing"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/coverage"
)

// TestList: the text names each fault that has not acted, with the reason.
func TestList(t *testing.T) {
	got := coverage.List([]coverage.Row{{
		Write:  coverage.Write{Actor: "job", Verb: "create", Resource: "pods"},
		Caches: map[string][]string{"pods": {"0", "2-3"}, "jobs.batch": {"0"}}, Relisted: []string{"pods"}, NotRelisted: []string{"jobs.batch"},
		Tried: []fault.Kind{fault.KindCrashAfter, fault.KindOutage}, NotTried: []fault.Kind{fault.KindLostAnswer}, Impossible: []fault.Kind{fault.KindConflict},
		Reasons: map[fault.Kind]string{fault.KindLostAnswer: "the search ended before", fault.KindConflict: "the write names no resourceVersion"},
	}})
	const want = `job create pods
  cache of jobs.batch: 0 versions behind; not listed again before
  cache of pods: 0, 2-3 versions behind; listed again before
  tried with: crash-after, outage
  not reached: lost-answer (the search ended before)
  no place at this write: conflict (the write names no resourceVersion)
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := coverage.List(nil); got != "no controller under test decided a write\n" {
		t.Errorf("of no writes: %s", got)
	}
}
