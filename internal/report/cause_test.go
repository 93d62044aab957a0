package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/report"
)

func TestCause(t *testing.T) {
	begin := func(faults ...string) (*recorder, int) {
		r := record(faults...)
		start := r.add(history.Step{Kind: history.Start, Actor: "jobs"})
		r.informer("jobs", "pods", "", 1, start)
		return r, start
	}
	for name, tc := range map[string]struct {
		run  func() *history.Run
		want []string
	}{
		"nothing went wrong": {func() *history.Run {
			r, start := begin()
			r.write("jobs", "create", "pods", "a", "", "", start)
			return r.fail("no pods", "1")
		}, []string{"jobs created pods default/a (step 3) although its caches were up to date and no fault took effect"}},
		"a pause": {func() *history.Run {
			r, start := begin("pause actor=jobs nth=1 for=30s")
			r.write("user", "create", "pods", "a", "", "")
			r.add(history.Step{Kind: history.Fault, Actor: "jobs", Fault: "pause actor=jobs nth=1 for=30s", Note: "paused"})
			r.write("jobs", "deletecollection", "pods", "", "", "", start)
			return r.fail("pods stay", "gone")
		}, []string{"jobs deleted all pods in default (step 5) while its cache of pods was at revision 10 and the truth at 11",
			"it had not observed user's create of pods default/a (step 3); the controller paused for a while (pause actor=jobs"}},
		"a fault that met nothing": {func() *history.Run {
			r, start := begin("lag resource=pods nth=9")
			r.write("user", "create", "pods", "a", "", "")
			r.write("jobs", "create", "pods", "b", "", "", start)
			return r.fail("1 pod", "2")
		}, []string{"it had not observed user's create of pods default/a (step 3)$"}},
		"an order of the schedule": {func() *history.Run {
			r, start := begin()
			r.Schedule = history.Schedule{Seed: 3, Depth: 2, Choices: 9}
			r.write("user", "create", "pods", "a", "", "")
			r.write("jobs", "create", "pods", "b", "", "", start)
			return r.fail("1 pod", "2")
		}, []string{"it had not observed user's create of pods default/a (step 3); the schedule chose this order$"}},
		"a boundary that is inferred": {func() *history.Run {
			r, _ := begin()
			r.Live = true
			a := r.write("user", "create", "pods", "a", "", "")
			r.wait(time.Second)
			r.write("jobs", "create", "pods", "b", "", "", a)
			return r.fail("1 pod", "2")
		}, []string{"(step 5), decided after step 3 (inferred) while"}},
		"an empty cache of another resource": {func() *history.Run {
			r, start := begin()
			r.add(history.Step{Kind: history.Request, Actor: "jobs", Verb: "watch", Object: history.Object{Resource: "nodes"}, Code: 200, Stream: 2}, start)
			r.write("user", "create", "nodes", "n", "", "")
			r.write("jobs", "patch", "pods", "a", "", "", start)
			return r.fail("pods stay", "changed")
		}, []string{"jobs patched pods default/a", "its cache of nodes was empty and the truth at 11"}},
		"the fault of the event itself": {func() *history.Run {
			r, start := begin("lag resource=pods nth=9", "lag resource=pods nth=1")
			a := r.write("jobs", "create", "pods", "a", "", "", start)
			r.write("jobs", "create", "pods", "b", "", "", start)
			run := r.fail("1 pod", "2")
			r.frame("jobs", "ADDED", "pods", "a", 1, 11, "lag resource=pods nth=1", a)
			return run
		}, []string{"it had not observed its own create of pods default/a (step 3); watch events came late (lag resource=pods nth=1)"}},
		"seen at an event": {func() *history.Run {
			r, start := begin()
			a := r.write("jobs", "create", "pods", "a", "", "", start)
			r.frame("jobs", "ADDED", "pods", "a", 1, 11, "", a)
			return r.fail("no pods", "1")
		}, []string{"jobs created pods default/a (step 3) although"}},
		"nothing was ever written": {func() *history.Run {
			r, _ := begin("error nth=1")
			r.wait(100 * time.Hour)
			return r.fail("1 pod", "none")
		}, []string{"until 100h0m0s no controller wrote anything, although all caches are up to date"}},
		"late": {func() *history.Run {
			r, start := begin()
			r.write("jobs", "create", "pods", "a", "", "", start)
			r.wait(time.Minute)
			return r.fail("2 pods", "1")
		}, []string{"until 1m0s the last write of a controller was jobs' create of pods default/a (step 3, 0s)",
			"jobs' cache of pods is at revision 10 and the truth at 11: it has not observed its own create"}},
		"an unreadable fault": {func() *history.Run {
			r, start := begin("from another version", "disconnect resource=nodes")
			r.write("user", "create", "pods", "a", "", "")
			r.write("jobs", "create", "pods", "b", "", "", start)
			return r.fail("1 pod", "2")
		}, []string{"it had not observed user's create of pods default/a (step 3)"}},
	} {
		got := report.Cause(tc.run(), nil)
		for _, want := range tc.want {
			if !strings.Contains(got+"$", want) {
				t.Errorf("%s: got %q, want %q in it", name, got, want)
			}
		}
		if strings.Contains(got, "\n") {
			t.Errorf("%s: it is more than a line", name)
		}
	}
}

// TestNamespaces: names are short only where they are unambiguous.
func TestNamespaces(t *testing.T) {
	r := record()
	r.write("user", "create", "pods", "a", "", "")
	if got := draw(t, r.Run, report.LaneOptions{}); !strings.Contains(got, ", namespace default") || strings.Contains(got, "default/a") {
		t.Errorf("one namespace:\n%s", got)
	}
	r.add(history.Step{Kind: history.Request, Actor: "user", Verb: "get", Object: history.Object{Resource: "pods", Namespace: "other", Name: "a"}, Code: 404, Note: "not there"})
	r.add(history.Step{Kind: history.Request, Actor: "user", Verb: "update", Object: thing("pods", "a"), Reply: "lost", Fault: "timeout nth=1"})
	got := draw(t, r.Run, report.LaneOptions{Width: 200})
	for _, want := range []string{"get pods other/a → 404 (not there)", "create pods default/a → @11", "update pods default/a → no answer", "!! timeout nth=1"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, ", namespace") {
		t.Error("two namespaces: one is named")
	}
}
