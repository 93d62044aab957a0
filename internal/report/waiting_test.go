package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/report"
)

// TestCauseOfWaiting: for a violation of the kind "this never happens", the cause names the object that waits and
// not the last write, which is about another object; it says when its last change was observed, and which write
// of the passing run is missing.
func TestCauseOfWaiting(t *testing.T) {
	play := func(each func(r *recorder, start int)) *recorder {
		r := record("lag resource=pods object=default/a nth=2")
		start := r.add(history.Step{Kind: history.Start, Actor: "jobs"})
		r.informer("jobs", "pods", "", 1, start)
		each(r, start)
		return r
	}
	passing := play(func(r *recorder, start int) {
		a := r.write("kubelet", "patch", "pods", "a", "", "", start)
		f := r.frame("jobs", "MODIFIED", "pods", "a", 1, 11, "", a)
		r.write("jobs", "delete", "pods", "a", "", "", f)
		r.write("jobs", "create", "pods", "b", "", "", f)
	}).Run
	hangs := func(event bool, fault string) *history.Run {
		run := play(func(r *recorder, start int) {
			a := r.write("kubelet", "patch", "pods", "a", "", "", start)
			r.at += 2 * time.Second
			if event {
				r.frame("jobs", "MODIFIED", "pods", "a", 1, 11, fault, a)
			}
			r.write("jobs", "create", "pods", "b", "", "", start)
			r.wait(time.Minute)
			r.fail("eventually pod default/a is gone", "pods default/a exists")
			r.Failure.AtEnd = true
		})
		return run.Run
	}
	owner := func(pods bool) *history.Run {
		return play(func(r *recorder, start int) {
			r.write("user", "create", "replicasets.apps", "web", "", "")
			owned := func(name string) {
				r.write("jobs", "create", "pods", name, "", "", start)
				r.change(`{"metadata":{"ownerReferences":[{"kind":"ReplicaSet","name":"web"}]}}`)
			}
			if !pods {
				owned("web-a") // its counterpart has another generated name
			}
			if pods {
				owned("web-b")
				r.write("jobs", "update", "replicasets.apps", "web", "", "", start)
				r.Steps[len(r.Steps)-1].Subresource = "status"
				r.write("jobs", "create", "pods", "other", "", "", start)
				r.write("user", "delete", "pods", "web-b", "", "")
				owned("web-1")
			}
			r.wait(time.Minute)
			if !pods {
				r.fail("1 ready pod of ReplicaSet default/web, within 30s", "there is none")
				r.Failure.AtEnd = true
			}
		}).Run
	}
	for name, c := range map[string]struct {
		run, nearest *history.Run
		want         string
	}{
		"an owned object is missing": {owner(false), owner(true),
			"replicasets.apps default/web waits: its last change was user's create (step 3, 0s); the nearest passing run has jobs' create of pods default/web-1 (step 8 there), which is missing here"},
		"observed, and a passing run": {hangs(true, ""), passing,
			"pods default/a waits: its last change was kubelet's patch (step 3, 0s), which jobs observed at step 4 (2s); the nearest passing run has jobs' delete of pods default/a (step 5 there), which is missing here"},
		"not delivered":   {hangs(false, ""), nil, "pods default/a waits: its last change was kubelet's patch (step 3, 0s), which no watch delivered to jobs"},
		"lost by a fault": {hangs(true, "lose-event resource=pods object=default/a nth=2"), nil, "kubelet's patch (step 3, 0s), which no watch delivered to jobs"},
		"no object is named": {because(hangs(true, ""), "all done", "not yet"), passing,
			"pods default/a waits: its last change was kubelet's patch (step 3, 0s), which jobs observed at step 4 (2s); the nearest passing run has jobs' delete of pods default/a"},
		"no object is named, and no run passed": {because(hangs(true, ""), "all done", "not yet"), nil, "the last write of a controller was jobs' create of pods default/b"},
		"several objects are named": {because(hangs(true, ""), "only pod b is left", "2 != 1: Pod default/a, Pod default/b"), passing,
			"pods default/a waits: its last change was kubelet's patch"},
	} {
		if got := report.Cause(c.run, c.nearest); !strings.Contains(got, c.want) {
			t.Errorf("%s:\nhave %s\nwant %s", name, got, c.want)
		}
	}
}

// because changes the failure of a run.
func because(run *history.Run, oracle, message string) *history.Run {
	run.Failure.Oracle, run.Failure.Message = oracle, message
	return run
}
